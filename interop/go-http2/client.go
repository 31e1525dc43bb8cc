package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// textLimit is the length of content that is shown, in bytes.
const textLimit = 4096

// said is what came of an action.
type said map[string]any

// peer sends all requests to Hermes, whatever their authority is.
type peer struct {
	*http.Transport
	scheme string
	dialed atomic.Int32
}

func connect(ca, at string) (*peer, error) {
	config, err := trust(ca)
	if err != nil {
		return nil, err
	}
	peer := &peer{Transport: &http.Transport{Protocols: only(), DisableCompression: true}, scheme: "http"}
	if config != nil {
		config.ServerName, _, _ = net.SplitHostPort(at)
		peer.scheme = "https"
	}
	peer.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		peer.dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, at)
	}
	peer.DialTLSContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		peer.dialed.Add(1)
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, at)
	}
	return peer, nil
}

func client(ca, at, action string, arguments []string) (said, error) {
	peer, err := connect(ca, at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch action {
	case "get":
		return peer.message(ctx, http.MethodGet, arguments[0], arguments[1], nil)
	case "post":
		length, err := strconv.Atoi(arguments[2])
		if err != nil {
			return nil, err
		}
		return peer.message(ctx, http.MethodPost, arguments[0], arguments[1], bytes.Repeat([]byte("x"), length))
	case "many":
		return peer.many(ctx, arguments[0], arguments[1], arguments[2])
	case "bytes":
		return peer.bytes(ctx, arguments[0], arguments[1])
	}
	return nil, fmt.Errorf("no action %q", action)
}

// message sends a request; content has a trailer behind it.
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
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, p.scheme+"://"+authority+path, body)
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
	got := said{"status": response.StatusCode, "version": response.Proto, "bytes": len(content), "interim": interim, "trailers": trailers}
	if len(content) <= textLimit {
		got["text"] = string(content)
	}
	return got, nil
}

// many sends so many requests at once, after a first that opens the connection, and counts the bytes of their answers.
func (p *peer) many(ctx context.Context, authority, path, count string) (said, error) {
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return nil, err
	}
	if _, err := p.message(ctx, http.MethodGet, authority, path, nil); err != nil {
		return nil, err
	}
	lengths, failed := make(chan int, wanted), make(chan error, wanted)
	for range wanted {
		go func() {
			got, err := p.message(ctx, http.MethodGet, authority, path, nil)
			if err != nil {
				failed <- err
				return
			}
			lengths <- got["bytes"].(int)
		}()
	}
	total := 0
	for range wanted {
		select {
		case length := <-lengths:
			total += length
		case err := <-failed:
			return nil, err
		}
	}
	return said{"bytes": total, "connections": p.dialed.Load()}, nil
}

// bytes sends so many bytes through CONNECT, and reads them back to the end.
func (p *peer) bytes(ctx context.Context, authority, length string) (said, error) {
	count, err := strconv.Atoi(length)
	if err != nil {
		return nil, err
	}
	read, write := io.Pipe()
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Scheme: p.scheme, Host: authority}, Host: authority, Header: http.Header{}, Body: read}
	response, err := p.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := write.Write(bytes.Repeat([]byte("x"), count))
		failed <- errors.Join(err, write.Close())
	}()
	echoed, err := io.ReadAll(response.Body)
	if err := errors.Join(err, <-failed); err != nil {
		return nil, err
	}
	return said{"status": response.StatusCode, "bytes": len(echoed)}, nil
}
