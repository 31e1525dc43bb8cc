// A CONNECT-UDP client and proxy over masque-go, whose QUIC is quic-go's. ../README.md says what the arguments and the
// answers mean.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/quic-go/masque-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
)

const (
	// patience is how long anything may take.
	patience = 15 * time.Second
	// streams is how many tunnels there may be at once.
	streams = 10000
)

func main() {
	var err error
	switch os.Args[1] {
	case "version":
		err = version("github.com/quic-go/masque-go")
	case "client":
		err = client(os.Args[2], os.Args[3], os.Args[5], os.Args[6:])
	case "server":
		err = server(os.Args[2], os.Args[3], "127.0.0.1:0")
	case "relay":
		err = server(os.Args[2], os.Args[3], os.Args[4])
	case "entry":
		err = entry(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func version(module string) error {
	info, _ := debug.ReadBuildInfo()
	for _, used := range info.Deps {
		if used.Path == module {
			fmt.Println(used.Version[1:])
		}
	}
	return nil
}

func template(proxy string) *uritemplate.Template {
	path := os.Getenv("PEER_TEMPLATE")
	if path == "" {
		path = "/.well-known/masque/udp/{target_host}/{target_port}/"
	}
	return uritemplate.MustNew("https://" + proxy + path)
}

func trusting(ca string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, NextProtos: []string{http3.NextProtoH3}}, nil
}

func client(ca, proxy, target string, lengths []string) error {
	config, err := trusting(ca)
	if err != nil {
		return err
	}
	masquerade := masque.Client{TLSClientConfig: config}
	defer masquerade.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, response, err := masquerade.DialAddr(ctx, template(proxy), target)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(patience))
	came, buffer := []int{}, make([]byte, 65536)
	for _, text := range lengths {
		length, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(make([]byte, length), nil); err != nil {
			return err
		}
		count, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		came = append(came, count)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"status": response.StatusCode, "came": came})
}

func server(cert, key, listen string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", listen)
	if err != nil {
		return err
	}
	port := socket.LocalAddr().(*net.UDPAddr).Port
	at := template(socket.LocalAddr().String())
	var relay masque.Proxy
	handler := func(w http.ResponseWriter, r *http.Request) {
		request, err := masque.ParseRequest(r, at)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		relay.Proxy(w, request)
	}
	server := http3.Server{
		Handler:         http.HandlerFunc(handler),
		EnableDatagrams: true,
		QUICConfig:      &quic.Config{EnableDatagrams: true, MaxIncomingStreams: streams},
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
	}
	fmt.Println(port)
	if os.Args[1] == "server" {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	return server.Serve(socket)
}
