package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	connectip "github.com/quic-go/connect-ip-go"
)

const (
	udp = 17
	// Ports of the packets that are sent.
	here, there = 5000, 7000
)

// client opens a tunnel, and does one thing with it.
func client(ca, proxy string, action []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, response, err := dial(ctx, ca, proxy, "")
	if err != nil {
		if response != nil && response.StatusCode > 299 {
			return json.NewEncoder(os.Stdout).Encode(map[string]any{"status": response.StatusCode})
		}
		return err
	}
	defer conn.Close()

	said := map[string]any{"status": response.StatusCode}
	given, err := conn.ReceiveAddressAssignment(ctx)
	if err != nil {
		return fmt.Errorf("no address came: %w", err)
	}
	said["addresses"] = addresses(given)
	offered, err := conn.Routes(ctx)
	if err != nil {
		return fmt.Errorf("no route came: %w", err)
	}
	said["routes"] = ranges(offered)

	switch action[0] {
	case "offered":
	case "request":
		// Asks for an address of its own choice, and tells what it got.
		prefix := netip.MustParsePrefix(action[1])
		if _, err := conn.RequestAddresses([]netip.Prefix{prefix}); err != nil {
			return err
		}
		answered, err := conn.ReceiveAddressAssignment(ctx)
		if err != nil {
			return fmt.Errorf("no answer came: %w", err)
		}
		said["requested"] = addresses(answered)
	case "packets":
		came, err := exchange(ctx, conn, given, action[1], action[2:])
		if err != nil {
			return err
		}
		said["came"] = came
	default:
		return fmt.Errorf("%s is not known", action[0])
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

func addresses(given []connectip.AssignedAddress) []string {
	said := []string{}
	for _, one := range given {
		if !one.Rejected() {
			said = append(said, one.IPPrefix.String())
		}
	}
	return said
}

func ranges(offered []connectip.IPRoute) []string {
	said := []string{}
	for _, one := range offered {
		said = append(said, fmt.Sprintf("%s-%s/%d", one.StartIP, one.EndIP, one.IPProtocol))
	}
	return said
}

// exchange sends a UDP packet of each length to the target, the next after the answer to the one before, and tells the
// lengths of the answers.
func exchange(ctx context.Context, conn *connectip.Conn, given []connectip.AssignedAddress, target string, lengths []string) ([]int, error) {
	to := netip.MustParseAddr(target)
	var from netip.Addr
	for _, one := range given {
		if !one.Rejected() && one.IPPrefix.Addr().Is4() == to.Is4() {
			from = one.IPPrefix.Addr()
		}
	}
	if !from.IsValid() {
		return nil, fmt.Errorf("no address towards %s", to)
	}

	came := []int{}
	room := make([]byte, longest)
	for _, text := range lengths {
		length, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		if icmp, err := conn.WritePacket(packet(from, to, make([]byte, length))); err != nil || icmp != nil {
			return nil, fmt.Errorf("%d bytes are not sent: %v", length, err)
		}
		count, err := answer(ctx, conn, room, to)
		if err != nil {
			return nil, err
		}
		came = append(came, count)
	}
	return came, nil
}

// answer waits for a UDP packet from an address, and tells the length of its content.
func answer(ctx context.Context, conn *connectip.Conn, room []byte, from netip.Addr) (int, error) {
	type read struct {
		count int
		err   error
	}
	done := make(chan read, 1)
	go func() {
		for {
			count, err := conn.ReadPacket(room)
			if err != nil {
				done <- read{0, err}
				return
			}
			if source, content, ok := parse(room[:count]); ok && source == from {
				done <- read{len(content), nil}
				return
			}
		}
	}()
	select {
	case got := <-done:
		return got.count, got.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// echo sends UDP packets back to where they came from.
func echo(conn *connectip.Conn) error {
	room := make([]byte, longest)
	for {
		count, err := conn.ReadPacket(room)
		if err != nil {
			return err
		}
		whole := room[:count]
		if _, _, ok := parse(whole); !ok {
			continue
		}
		turned := append([]byte(nil), whole...)
		at, size := 12, 4
		if turned[0]>>4 == 6 {
			at, size = 8, 16
		}
		copy(turned[at:], whole[at+size:at+2*size])
		copy(turned[at+size:], whole[at:at+size])
		head := header(whole)
		copy(turned[head:], whole[head+2:head+4])
		copy(turned[head+2:], whole[head:head+2])
		// No checksum changes when both ends change places; the library mends that of IPv4 when it counts the hop.
		if _, err := conn.WritePacket(turned); err != nil {
			return err
		}
	}
}

// header is how long that of IP is: no extensions, which nothing here sends.
func header(packet []byte) int {
	if packet[0]>>4 == 6 {
		return 40
	}
	return int(packet[0]&15) * 4
}

// parse returns the source and the content of a UDP packet.
func parse(packet []byte) (netip.Addr, []byte, bool) {
	if len(packet) < 28 {
		return netip.Addr{}, nil, false
	}
	head := header(packet)
	protocol, source := packet[9], packet[12:16]
	if packet[0]>>4 == 6 {
		protocol, source = packet[6], packet[8:24]
	}
	if protocol != udp || len(packet) < head+8 {
		return netip.Addr{}, nil, false
	}
	address, ok := netip.AddrFromSlice(source)
	return address, packet[head+8:], ok
}

// packet is one of UDP (RFC 768) in IPv4 (RFC 791) or IPv6 (RFC 8200).
func packet(from, to netip.Addr, content []byte) []byte {
	length := 8 + len(content)
	datagram := make([]byte, 8, length)
	binary.BigEndian.PutUint16(datagram, here)
	binary.BigEndian.PutUint16(datagram[2:], there)
	binary.BigEndian.PutUint16(datagram[4:], uint16(length))
	datagram = append(datagram, content...)

	pseudo := append(from.AsSlice(), to.AsSlice()...)
	pseudo = append(pseudo, 0, udp, byte(length>>8), byte(length))
	sum := checksum(append(pseudo, datagram...))
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(datagram[6:], sum)

	var head []byte
	if to.Is4() {
		head = make([]byte, 12, 20)
		head[0], head[8], head[9] = 0x45, 64, udp
		binary.BigEndian.PutUint16(head[2:], uint16(20+length))
		head = append(append(head, from.AsSlice()...), to.AsSlice()...)
		binary.BigEndian.PutUint16(head[10:], checksum(head))
	} else {
		head = make([]byte, 8, 40)
		head[0], head[6], head[7] = 0x60, udp, 64
		binary.BigEndian.PutUint16(head[4:], uint16(length))
		head = append(append(head, from.AsSlice()...), to.AsSlice()...)
	}
	return append(head, datagram...)
}

// checksum is that of RFC 1071.
func checksum(bytes []byte) uint16 {
	var sum uint32
	for at := 0; at < len(bytes); at += 2 {
		word := uint32(bytes[at]) << 8
		if at+1 < len(bytes) {
			word |= uint32(bytes[at+1])
		}
		sum += word
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
