// An HTTP/3 client and server over quic-go. ../README.md says what the arguments and the answers mean.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// patience is how long anything may take.
const patience = 15 * time.Second

func main() {
	var err error
	switch os.Args[1] {
	case "version":
		version("github.com/quic-go/quic-go")
	case "client":
		var said any
		if said, err = client(os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(said)
		}
	case "server":
		err = server(os.Args[2], os.Args[3], os.Args[4:])
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

func trust(ca string) (*tls.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{
		RootCAs:            roots,
		NextProtos:         []string{http3.NextProtoH3},
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}, nil
}
