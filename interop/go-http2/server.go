package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// server prints its port and serves until its input ends: under TLS, or in clear to who sends the preface.
func server(cert, key string, words []string) error {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := http.Server{Handler: http.HandlerFunc(handle), Protocols: only()}
	fmt.Println(socket.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if slices.Contains(words, "clear") {
		return server.Serve(socket)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	return server.ServeTLS(socket, "", "")
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

// echo sends back the bytes of a tunnel as they come.
func echo(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	control.Flush()
	for buffer := make([]byte, 64<<10); ; {
		count, err := r.Body.Read(buffer)
		if _, failed := w.Write(buffer[:count]); failed != nil {
			panic(http.ErrAbortHandler)
		}
		control.Flush()
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
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
	got := map[string]any{":method": r.Method, ":authority": r.Host, ":path": r.RequestURI, "version": r.Proto, "bytes": length, "trailers": trailers}
	for name := range r.Header {
		got[strings.ToLower(name)] = r.Header.Get(name)
	}
	text, err := json.Marshal(got)
	if err != nil {
		panic(err)
	}
	w.Write(text)
}
