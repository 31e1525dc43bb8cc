package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// textLimit is the length of content that is shown, in bytes.
const textLimit = 4096

// datagramCapsule is the type of a capsule with a datagram (RFC 9297, 3.5).
const datagramCapsule http3.CapsuleType = 0

// said is what came of an action.
type said map[string]any

// peer is one connection to Hermes.
type peer struct {
	*http3.ClientConn
	conn *quic.Conn
	at   string
}

func dial(ctx context.Context, config *tls.Config, at string, datagrams bool) (*peer, error) {
	settings := &quic.Config{EnableDatagrams: datagrams}
	conn, err := quic.DialAddrEarly(ctx, at, config, settings)
	if err != nil {
		return nil, err
	}
	transport := &http3.Transport{EnableDatagrams: datagrams, QUICConfig: settings, DisableCompression: true}
	return &peer{transport.NewClientConn(conn), conn, at}, nil
}

func client(ca, at, action string, arguments []string) (said, error) {
	config, err := trust(ca)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	peer, err := dial(ctx, config, at, action != "capsules")
	if err != nil {
		return nil, err
	}
	defer func() { peer.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") }()
	switch action {
	case "get":
		return peer.message(ctx, http.MethodGet, arguments[0], arguments[1], nil)
	case "post":
		length, err := strconv.Atoi(arguments[2])
		if err != nil {
			return nil, err
		}
		return peer.message(ctx, http.MethodPost, arguments[0], arguments[1], bytes.Repeat([]byte("x"), length))
	case "bytes":
		return peer.bytes(ctx, arguments[0], arguments[1])
	case "udp", "capsules":
		return peer.udp(ctx, arguments[0], arguments[1:], action == "capsules")
	case "websocket":
		return peer.websocket(ctx, arguments[0], arguments[1])
	case "early":
		return early(ctx, config, peer, arguments[0], arguments[1], arguments[2])
	}
	return nil, fmt.Errorf("no action %q", action)
}

// message sends a request in absolute form, as a forward proxy takes it; content has a trailer behind it.
func (p *peer) message(ctx context.Context, method, authority, path string, content []byte) (said, error) {
	interim := []int{}
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		interim = append(interim, code)
		return nil
	}}
	// Not a type that the client knows the length of: content of unknown length is what trailers come behind.
	var body io.Reader
	if content != nil {
		body = io.MultiReader(bytes.NewReader(content))
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, "http://"+authority+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Te", "trailers")
	if content != nil {
		request.Trailer = http.Header{"X-Checksum": {"42"}}
	}
	response, err := p.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return answer(response, interim)
}

func answer(response *http.Response, interim []int) (said, error) {
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	trailers := map[string]string{}
	for name, values := range response.Trailer {
		trailers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	got := said{"status": response.StatusCode, "bytes": len(content), "interim": interim, "trailers": trailers}
	if len(content) <= textLimit {
		got["text"] = string(content)
	}
	return got, nil
}

// bytes sends so many bytes through CONNECT, and reads them back to the end.
func (p *peer) bytes(ctx context.Context, authority, length string) (said, error) {
	count, err := strconv.Atoi(length)
	if err != nil {
		return nil, err
	}
	stream, status, err := p.tunnel(ctx, &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: authority}, Host: authority})
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() {
		_, err := stream.Write(bytes.Repeat([]byte("x"), count))
		failed <- errors.Join(err, stream.Close())
	}()
	echoed, err := io.ReadAll(stream)
	if err := errors.Join(err, <-failed); err != nil {
		return nil, err
	}
	return said{"status": status, "bytes": len(echoed)}, nil
}

func (p *peer) tunnel(ctx context.Context, request *http.Request) (*http3.RequestStream, int, error) {
	select {
	case <-p.ReceivedSettings():
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	stream, err := p.OpenRequestStream(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := stream.SendRequestHeader(request.WithContext(ctx)); err != nil {
		return nil, 0, err
	}
	response, err := stream.ReadResponse()
	if err != nil {
		return nil, 0, err
	}
	return stream, response.StatusCode, nil
}

func extended(protocol, scheme, authority, path string, fields http.Header) *http.Request {
	return &http.Request{
		Method: http.MethodConnect,
		Proto:  protocol,
		URL:    &url.URL{Scheme: scheme, Host: authority, Path: path},
		Host:   authority,
		Header: fields,
	}
}

// udp sends datagrams of these lengths one after the other, and reads each back.
func (p *peer) udp(ctx context.Context, target string, lengths []string, capsules bool) (said, error) {
	host, port, _ := strings.Cut(target, ":")
	path := "/.well-known/masque/udp/" + host + "/" + port + "/"
	fields := http.Header{http3.CapsuleProtocolHeader: {"?1"}}
	stream, status, err := p.tunnel(ctx, extended("connect-udp", "https", p.at, path, fields))
	if err != nil {
		return nil, err
	}
	came := []int{}
	for _, text := range lengths {
		length, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		sent := make([]byte, 1+length)
		var got []byte
		if capsules {
			if err = http3.WriteCapsule(quicvarint.NewWriter(stream), datagramCapsule, sent); err == nil {
				got, err = readCapsule(stream)
			}
		} else if err = stream.SendDatagram(sent); err == nil {
			got, err = stream.ReceiveDatagram(ctx)
		}
		if err != nil {
			return nil, err
		}
		came = append(came, len(got)-1)
	}
	return said{"status": status, "came": came}, nil
}

func readCapsule(stream io.Reader) ([]byte, error) {
	kind, content, err := http3.NewCapsuleParser(stream).Next()
	if err != nil {
		return nil, err
	}
	if kind != datagramCapsule {
		return nil, fmt.Errorf("a capsule of type %d", kind)
	}
	return io.ReadAll(content)
}

// websocket opens one (RFC 9220), and sends some bytes there and back.
func (p *peer) websocket(ctx context.Context, authority, path string) (said, error) {
	fields := http.Header{"Sec-Websocket-Version": {"13"}}
	stream, status, err := p.tunnel(ctx, extended("websocket", "http", authority, path, fields))
	if err != nil {
		return nil, err
	}
	if _, err := stream.Write([]byte("frame")); err != nil {
		return nil, err
	}
	came := make([]byte, 5)
	if _, err := io.ReadFull(stream, came); err != nil {
		return nil, err
	}
	return said{"status": status, "came": string(came)}, nil
}

// early sends a request in the first flight of a second connection (RFC 8470).
func early(ctx context.Context, config *tls.Config, first *peer, method, authority, path string) (said, error) {
	if _, err := first.message(ctx, http.MethodGet, authority, path, nil); err != nil {
		return nil, err
	}
	second, err := dial(ctx, config, first.at, true)
	if err != nil {
		return nil, err
	}
	defer func() { second.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") }()
	stream, err := second.OpenRequestStream(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+authority+path, nil)
	if err != nil {
		return nil, err
	}
	if err := stream.SendRequestHeader(request); err != nil {
		return nil, err
	}
	if err := stream.Close(); err != nil {
		return nil, err
	}
	response, err := stream.ReadResponse()
	if err != nil {
		return nil, err
	}
	got, err := answer(response, nil)
	if err != nil {
		return nil, err
	}
	got["early"] = second.conn.ConnectionState().Used0RTT
	return got, nil
}
