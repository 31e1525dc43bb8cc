package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// server prints its port and serves until its input ends.
func server(cert, key string, flags []string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	datagrams := len(flags) == 0 || flags[0] != "capsules"
	server := http3.Server{
		Handler:         http.HandlerFunc(handle),
		EnableDatagrams: datagrams,
		QUICConfig:      &quic.Config{EnableDatagrams: datagrams, Allow0RTT: true},
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
	}
	fmt.Println(socket.LocalAddr().(*net.UDPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return server.Serve(socket)
}

func handle(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		echo(w, r)
	case strings.HasPrefix(r.URL.Path, "/bytes/"):
		length, _ := strconv.Atoi(r.URL.Path[len("/bytes/"):])
		w.Write(make([]byte, length))
	case r.URL.Path == "/trailers":
		io.WriteString(w, "body\n")
		// Without this the content has a length, and no trailers.
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-Checksum", "42")
	case r.URL.Path == "/hints":
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "done\n")
	default:
		describe(w, r)
	}
}

// describe answers with the head of the request, the length of its content and its trailers.
func describe(w http.ResponseWriter, r *http.Request) {
	length, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	trailers := map[string]string{}
	for name := range r.Trailer {
		trailers[strings.ToLower(name)] = r.Trailer.Get(name)
	}
	got := map[string]any{":method": r.Method, ":authority": r.Host, ":path": r.RequestURI, "bytes": length, "trailers": trailers}
	for name := range r.Header {
		got[strings.ToLower(name)] = r.Header.Get(name)
	}
	text, err := json.Marshal(got)
	if err != nil {
		panic(err)
	}
	w.Write(text)
}

// echo sends back the bytes of a tunnel, and its datagrams, which come beside the stream or in capsules.
func echo(w http.ResponseWriter, r *http.Request) {
	udp := r.Proto == "connect-udp"
	if udp {
		w.Header().Set(http3.CapsuleProtocolHeader, "?1")
	}
	w.WriteHeader(http.StatusOK)
	stream, err := w.(http3.HTTPStreamer).HTTPStream()
	if err != nil {
		return
	}
	defer stream.Close()
	if !udp {
		io.Copy(stream, stream)
		return
	}
	go func() {
		for {
			datagram, err := stream.ReceiveDatagram(r.Context())
			if err != nil || stream.SendDatagram(datagram) != nil {
				return
			}
		}
	}()
	for capsules := http3.NewCapsuleParser(stream); ; {
		kind, content, err := capsules.Next()
		if err != nil {
			return
		}
		value, err := io.ReadAll(content)
		if err != nil || http3.WriteCapsule(quicvarint.NewWriter(stream), kind, value) != nil {
			return
		}
	}
}
