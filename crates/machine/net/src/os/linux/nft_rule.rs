//! Rules of nf_tables: conditions and effects (nft(8)).

use super::netlink::append_attribute;
use super::nftables::{nested, number, text, value};

/// Attributes of expressions (`linux/netfilter/nf_tables.h`, `linux/netfilter/nf_tables_compat.h`).
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_FIB_DREG: u16 = 1;
const NFTA_FIB_RESULT: u16 = 2;
const NFTA_FIB_FLAGS: u16 = 3;
const NFTA_REDIR_REG_PROTO_MIN: u16 = 1;
const NFTA_TPROXY_FAMILY: u16 = 1;
const NFTA_TPROXY_REG_PORT: u16 = 3;
const NFTA_SOCKET_KEY: u16 = 1;
const NFTA_SOCKET_DREG: u16 = 2;
const NFTA_REJECT_TYPE: u16 = 1;
const NFTA_REJECT_ICMP_CODE: u16 = 2;
const NFTA_TARGET_NAME: u16 = 1;
const NFTA_TARGET_REV: u16 = 2;
const NFTA_TARGET_INFO: u16 = 3;
const NFTA_FIB_F_DADDR: u32 = 2;

/// The register that passes a value from one expression to the next, and the register of the
/// verdict.
const REGISTER: u32 = 1;
const NFT_REG_VERDICT: u32 = 0;

/// Values that are loaded, comparisons, and kinds of refusals.
const NFT_META_MARK: u32 = 3;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_SKUID: u32 = 10;
const NFT_META_NFPROTO: u32 = 15;
const NFT_META_L4PROTO: u32 = 16;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
const NFT_CMP_LTE: u32 = 3;
const NFT_CMP_GTE: u32 = 5;
const NFT_CT_STATE: u32 = 0;
const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
const NFT_SOCKET_TRANSPARENT: u32 = 0;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFT_REJECT_TCP_RST: u32 = 1;
const NFT_REJECT_ICMPX_UNREACH: u32 = 2;
/// A look-up in a set, which holds if there is nothing.
const NFTA_LOOKUP_SET: u16 = 1;
const NFTA_LOOKUP_SREG: u16 = 2;
const NFTA_LOOKUP_FLAGS: u16 = 5;
const NFT_LOOKUP_F_INV: u32 = 1;
/// The direction of a connection, and the answers in it.
const NFT_CT_DIRECTION: u32 = 1;
const IP_CT_DIR_REPLY: u8 = 1;

/// Verdicts (`linux/netfilter.h`).
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;

/// An error that ICMP reports in place of an answer, in the form that stands for both versions of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreachable {
    /// No route to the network.
    Network = 0,
    /// Nothing has the port.
    Port = 1,
    /// The host does not answer.
    Host = 2,
    /// It is forbidden.
    Prohibited = 3,
}

/// The expressions of one rule, in their order: conditions, and then its effect.
#[derive(Debug, Clone, Default)]
pub(super) struct Rule(Vec<u8>);

impl Rule {
    /// The list of them, as attributes.
    pub(super) fn expressions(&self) -> &[u8] {
        &self.0
    }

    /// `iifname "hermes1"`
    pub(super) fn by_interface(self, name: &str) -> Self {
        self.meta(NFT_META_IIFNAME)
            .compare(NFT_CMP_EQ, &interface(name))
    }

    /// `oifname != "hermes1"`
    pub(super) fn not_to_interface(self, name: &str) -> Self {
        self.meta(NFT_META_OIFNAME)
            .compare(NFT_CMP_NEQ, &interface(name))
    }

    /// `meta l4proto tcp`
    pub(super) fn protocol(self, protocol: u8) -> Self {
        self.meta(NFT_META_L4PROTO).compare(NFT_CMP_EQ, &[protocol])
    }

    /// `meta nfproto ipv4`
    pub(super) fn family(self, family: u8) -> Self {
        self.meta(NFT_META_NFPROTO).compare(NFT_CMP_EQ, &[family])
    }

    /// `meta skuid 1000-1999`
    pub(super) fn of_users(self, first: u32, last: u32) -> Self {
        // The kernel compares bytes, and keeps the number in an order of its own.
        self.meta(NFT_META_SKUID)
            .byteorder()
            .compare(NFT_CMP_GTE, &first.to_be_bytes())
            .compare(NFT_CMP_LTE, &last.to_be_bytes())
    }

    /// `meta mark & BITS == MARK`
    pub(super) fn has_mark(self, mark: u32, bits: u32) -> Self {
        self.meta(NFT_META_MARK)
            .mask(&bits.to_ne_bytes())
            .compare(NFT_CMP_EQ, &mark.to_ne_bytes())
    }

    /// `meta mark & BITS != MARK`
    pub(super) fn has_not_mark(self, mark: u32, bits: u32) -> Self {
        self.meta(NFT_META_MARK)
            .mask(&bits.to_ne_bytes())
            .compare(NFT_CMP_NEQ, &mark.to_ne_bytes())
    }

    /// `ct state invalid`, or others of these states.
    pub(super) fn has_state(mut self, states: u32) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_CT_DREG, REGISTER);
        number(&mut bytes, NFTA_CT_KEY, NFT_CT_STATE);
        expression(&mut self.0, "ct", &bytes);
        self.mask(&states.to_ne_bytes())
            .compare(NFT_CMP_NEQ, &[0; 4])
    }

    /// `ct direction reply`
    pub(super) fn answers(mut self) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_CT_DREG, REGISTER);
        number(&mut bytes, NFTA_CT_KEY, NFT_CT_DIRECTION);
        expression(&mut self.0, "ct", &bytes);
        self.compare(NFT_CMP_EQ, &[IP_CT_DIR_REPLY])
    }

    /// `fib daddr type unicast`, of this type or not.
    pub(super) fn destination_type(mut self, kind: u32, is: bool) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
        number(&mut bytes, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
        number(&mut bytes, NFTA_FIB_DREG, REGISTER);
        expression(&mut self.0, "fib", &bytes);
        let operation = if is { NFT_CMP_EQ } else { NFT_CMP_NEQ };
        self.compare(operation, &kind.to_ne_bytes())
    }

    /// `socket transparent 1`
    pub(super) fn has_transparent_socket(mut self) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_SOCKET_KEY, NFT_SOCKET_TRANSPARENT);
        number(&mut bytes, NFTA_SOCKET_DREG, REGISTER);
        expression(&mut self.0, "socket", &bytes);
        self.compare(NFT_CMP_EQ, &[1])
    }

    /// This number is not in a set of the table.
    pub(super) fn without_element(self, key: u32, set: &str) -> Self {
        let mut rule = self.load(&key.to_ne_bytes());
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_LOOKUP_SET, set);
        number(&mut bytes, NFTA_LOOKUP_SREG, REGISTER);
        number(&mut bytes, NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
        expression(&mut rule.0, "lookup", &bytes);
        rule
    }

    /// Bytes of the header of IP at this offset, under a mask.
    pub(super) fn network_bytes(self, offset: u32, mask: &[u8], value: &[u8]) -> Self {
        self.payload(NFT_PAYLOAD_NETWORK_HEADER, offset, mask, value)
    }

    /// Bytes of the header of TCP or UDP at this offset, under a mask.
    pub(super) fn transport_bytes(self, offset: u32, mask: &[u8], value: &[u8]) -> Self {
        self.payload(NFT_PAYLOAD_TRANSPORT_HEADER, offset, mask, value)
    }

    /// `meta mark set MARK`
    pub(super) fn set_mark(mut self, mark: u32) -> Self {
        self = self.load(&mark.to_ne_bytes());
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_META_KEY, NFT_META_MARK);
        number(&mut bytes, NFTA_META_SREG, REGISTER);
        expression(&mut self.0, "meta", &bytes);
        self
    }

    /// `tproxy to :PORT`; the rule ends here where no socket is found.
    pub(super) fn into_socket(mut self, port: u16) -> Self {
        self = self.load(&port.to_be_bytes());
        let mut bytes = Vec::new();
        // No family: both.
        number(&mut bytes, NFTA_TPROXY_FAMILY, 0);
        number(&mut bytes, NFTA_TPROXY_REG_PORT, REGISTER);
        expression(&mut self.0, "tproxy", &bytes);
        self
    }

    /// `redirect to :PORT`
    pub(super) fn redirect(mut self, port: u16) -> Self {
        self = self.load(&port.to_be_bytes());
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_REDIR_REG_PROTO_MIN, REGISTER);
        expression(&mut self.0, "redir", &bytes);
        self
    }

    /// `masquerade`
    pub(super) fn masquerade(self) -> Self {
        self.bare("masq")
    }

    /// `notrack`
    pub(super) fn without_tracking(self) -> Self {
        self.bare("notrack")
    }

    /// `reject with tcp reset`
    pub(super) fn reset(mut self) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
        expression(&mut self.0, "reject", &bytes);
        self
    }

    /// `reject with icmpx CODE`
    pub(super) fn unreachable(mut self, code: Unreachable) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
        append_attribute(&mut bytes, NFTA_REJECT_ICMP_CODE, &[code as u8]);
        expression(&mut self.0, "reject", &bytes);
        self
    }

    /// `queue`, by the target of xtables: kernels without an expression of their own for it have that.
    pub(super) fn queue(mut self, info: &[u8]) -> Self {
        let mut bytes = Vec::new();
        text(&mut bytes, NFTA_TARGET_NAME, "NFQUEUE");
        number(&mut bytes, NFTA_TARGET_REV, 3);
        append_attribute(&mut bytes, NFTA_TARGET_INFO, info);
        expression(&mut self.0, "target", &bytes);
        self
    }

    /// `drop`
    pub(super) fn drop_it(self) -> Self {
        self.verdict(NF_DROP)
    }

    /// `accept`
    pub(super) fn accept(self) -> Self {
        self.verdict(NF_ACCEPT)
    }

    fn bare(mut self, name: &str) -> Self {
        expression(&mut self.0, name, &[]);
        self
    }

    fn verdict(mut self, code: u32) -> Self {
        let mut inner = Vec::new();
        number(&mut inner, NFTA_VERDICT_CODE, code);
        let mut verdict = Vec::new();
        nested(&mut verdict, NFTA_DATA_VERDICT, &inner);

        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        nested(&mut bytes, NFTA_IMMEDIATE_DATA, &verdict);
        expression(&mut self.0, "immediate", &bytes);
        self
    }

    /// Loads a value of the packet's.
    fn meta(mut self, key: u32) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_META_DREG, REGISTER);
        number(&mut bytes, NFTA_META_KEY, key);
        expression(&mut self.0, "meta", &bytes);
        self
    }

    /// Loads these bytes.
    fn load(mut self, bytes: &[u8]) -> Self {
        let mut content = Vec::new();
        number(&mut content, NFTA_IMMEDIATE_DREG, REGISTER);
        nested(&mut content, NFTA_IMMEDIATE_DATA, &value(bytes));
        expression(&mut self.0, "immediate", &content);
        self
    }

    fn payload(mut self, base: u32, offset: u32, mask: &[u8], value: &[u8]) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_PAYLOAD_DREG, REGISTER);
        number(&mut bytes, NFTA_PAYLOAD_BASE, base);
        number(&mut bytes, NFTA_PAYLOAD_OFFSET, offset);
        number(&mut bytes, NFTA_PAYLOAD_LEN, length(mask));
        expression(&mut self.0, "payload", &bytes);
        self.mask(mask).compare(NFT_CMP_EQ, value)
    }

    /// Turns a number in the order of the machine into that of the network.
    fn byteorder(mut self) -> Self {
        let mut bytes = Vec::new();
        // Source, destination, `hton`, length and size of the numbers.
        for (kind, what) in [(1, REGISTER), (2, REGISTER), (3, 1), (4, 4), (5, 4)] {
            number(&mut bytes, kind, what);
        }
        expression(&mut self.0, "byteorder", &bytes);
        self
    }

    /// Masks the loaded value with these bits.
    fn mask(mut self, bits: &[u8]) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_BITWISE_SREG, REGISTER);
        number(&mut bytes, NFTA_BITWISE_DREG, REGISTER);
        number(&mut bytes, NFTA_BITWISE_LEN, length(bits));
        nested(&mut bytes, NFTA_BITWISE_MASK, &value(bits));
        nested(&mut bytes, NFTA_BITWISE_XOR, &value(&vec![0; bits.len()]));
        expression(&mut self.0, "bitwise", &bytes);
        self
    }

    /// Goes on if the loaded value compares so with this one.
    fn compare(mut self, operation: u32, with: &[u8]) -> Self {
        let mut bytes = Vec::new();
        number(&mut bytes, NFTA_CMP_SREG, REGISTER);
        number(&mut bytes, NFTA_CMP_OP, operation);
        nested(&mut bytes, NFTA_CMP_DATA, &value(with));
        expression(&mut self.0, "cmp", &bytes);
        self
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or_default()
}

/// The name of an interface as it stands in a register: of one length, with zeros behind it.
fn interface(name: &str) -> [u8; libc::IFNAMSIZ] {
    let mut padded = [0; libc::IFNAMSIZ];
    let length = name.len().min(libc::IFNAMSIZ);
    padded[..length].copy_from_slice(&name.as_bytes()[..length]);
    padded
}

fn expression(bytes: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut content = Vec::new();
    text(&mut content, NFTA_EXPR_NAME, name);
    nested(&mut content, NFTA_EXPR_DATA, data);
    nested(bytes, NFTA_LIST_ELEM, &content);
}

#[cfg(test)]
mod tests {
    use super::super::netlink::attributes;
    use super::super::nftables::{NESTED, NFTA_DATA_VALUE};
    use super::*;

    /// The value of the first attribute of this type.
    fn inner(bytes: &[u8], kind: u16) -> &[u8] {
        let mut found = attributes(bytes).filter(|(found, _)| *found == kind);
        found.next().unwrap().1
    }

    /// The names of a rule's expressions, and the data of each.
    fn expressions(rule: &Rule) -> Vec<(&[u8], &[u8])> {
        let each = attributes(&rule.0).map(|(_, one)| {
            let name = inner(one, NFTA_EXPR_NAME);
            (name, inner(one, NFTA_EXPR_DATA | NESTED))
        });
        each.collect()
    }

    #[test]
    fn a_comparison_is_of_whole_names() {
        let rule = Rule::default().by_interface("hermes1");
        let (_, comparison) = expressions(&rule)[1];
        let data = inner(comparison, NFTA_CMP_DATA | NESTED);
        let name = inner(data, NFTA_DATA_VALUE);
        assert_eq!(name, b"hermes1\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_rule_has_its_expressions_in_their_order() {
        let rule = Rule::default()
            .by_interface("hermes1")
            .not_to_interface("hermes1")
            .masquerade();
        let names: Vec<&[u8]> = expressions(&rule).iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [&b"meta\0"[..], b"cmp\0", b"meta\0", b"cmp\0", b"masq\0"]
        );
    }
}
