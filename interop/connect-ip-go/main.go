// A CONNECT-IP client and proxy over connect-ip-go, whose QUIC is quic-go's. ../README.md says what the arguments and the
// answers mean.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	connectip "github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
)

const (
	// patience is how long anything may take.
	patience = 15 * time.Second
	// packetSize lets datagrams hold packets of 1280 bytes, which IPv6 needs.
	packetSize = 1420
	// buffer is the room for UDP that waits in the kernel, in bytes.
	buffer = 4 << 20
	// longest is an IP packet.
	longest = 65536
)

// The addresses that the proxy gives to its clients, and what it advertises. All clients get the same ones.
var (
	assigned = []netip.Prefix{netip.MustParsePrefix("10.41.0.2/32"), netip.MustParsePrefix("fd41::2/128")}
	routes   = []connectip.IPRoute{
		{StartIP: netip.MustParseAddr("10.41.0.1"), EndIP: netip.MustParseAddr("10.41.0.1")},
		{StartIP: netip.MustParseAddr("10.42.0.0"), EndIP: netip.MustParseAddr("10.42.255.255")},
		{StartIP: netip.MustParseAddr("fd41::1"), EndIP: netip.MustParseAddr("fd41::1")},
	}
)

func main() {
	var err error
	switch os.Args[1] {
	case "version":
		version("github.com/quic-go/connect-ip-go")
	case "client":
		err = client(os.Args[2], os.Args[3], os.Args[4:])
	case "server":
		err = server(os.Args[2], os.Args[3], "127.0.0.1:0", echo)
	case "tun-client":
		err = tunClient(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case "tun-server":
		device := os.Args[5]
		err = server(os.Args[2], os.Args[3], os.Args[4], func(conn *connectip.Conn) error { return carry(conn, device) })
	default:
		err = fmt.Errorf("%s is not known", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func version(module string) {
	info, _ := debug.ReadBuildInfo()
	for _, used := range info.Deps {
		if used.Path == module {
			fmt.Println(used.Version[1:])
		}
	}
}

// template is that of RFC 9484, section 3, for all targets and protocols: the library takes none with variables.
func template(authority string) *uritemplate.Template {
	path := os.Getenv("PEER_TEMPLATE")
	if path == "" {
		path = "/.well-known/masque/ip/*/*/"
	}
	return uritemplate.MustNew("https://" + authority + path)
}

// dial opens a tunnel to a proxy. Its certificate is for `name`, or for the host where that is empty.
func dial(ctx context.Context, ca, proxy, name string) (*connectip.Conn, *http.Response, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := connectip.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{http3.NextProtoH3}},
		QUICConfig:      config(),
	}
	request, err := connectip.NewRequest(ctx, template(proxy))
	if err != nil {
		return nil, nil, err
	}
	if user := os.Getenv("PEER_AUTHORIZATION"); user != "" {
		request.Header().Set("Proxy-Authorization", user)
	}
	return transport.Dial(request)
}

func config() *quic.Config {
	return &quic.Config{EnableDatagrams: true, InitialPacketSize: packetSize, KeepAlivePeriod: time.Second}
}

// server serves tunnels until its input ends, or it is ended; with each it does the same.
func server(cert, key, listen string, serve func(*connectip.Conn) error) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	address, err := net.ResolveUDPAddr("udp", listen)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	socket.SetReadBuffer(buffer)
	socket.SetWriteBuffer(buffer)

	handler := func(w http.ResponseWriter, r *http.Request) {
		// Names of the same server are all right: what is asked for is in the path.
		request, err := connectip.ParseProxyRequest(r, template(r.Host))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, err := new(connectip.Proxy).Proxy(w, request)
		if err != nil {
			return
		}
		defer conn.Close()
		if err := offer(conn); err != nil {
			return
		}
		if err := serve(conn); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	server := http3.Server{
		Handler:         http.HandlerFunc(handler),
		EnableDatagrams: true,
		QUICConfig:      config(),
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
	}
	fmt.Println(socket.LocalAddr().(*net.UDPAddr).Port)
	if os.Args[1] == "server" {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	return server.Serve(socket)
}

// offer gives addresses and routes; and the same addresses again to a client that asks for some.
func offer(conn *connectip.Conn) error {
	if err := conn.AssignAddresses(assigned); err != nil {
		return err
	}
	if err := conn.AdvertiseRoute(routes); err != nil {
		return err
	}
	go func() {
		for {
			request, err := conn.ReceiveAddressRequest(context.Background())
			if err != nil {
				return
			}
			answers := make([]netip.Prefix, len(request.Prefixes))
			for at, prefix := range request.Prefixes {
				for _, own := range assigned {
					if own.Addr().Is4() == prefix.Addr().Is4() {
						answers[at] = own
					}
				}
			}
			request.Respond(answers, nil)
		}
	}()
	return nil
}
