// A client and a server over HTTP/2 by Go's own net/http. ../README.md says what the arguments and the answers mean.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"
)

// patience is how long anything may take.
const patience = 15 * time.Second

func main() {
	var err error
	switch os.Args[1] {
	case "version":
		fmt.Println(runtime.Version()[len("go"):])
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

// only is HTTP/2 and nothing else, in clear or under TLS.
func only() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

// clear is what stands for the authorities where there is no TLS.
const clear = "-"

func trust(ca string) (*tls.Config, error) {
	if ca == clear {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}, nil
}
