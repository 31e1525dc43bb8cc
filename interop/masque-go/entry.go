package main

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/masque-go"
)

const (
	// room is for the datagrams that wait: of the kernel, in bytes, and of a flow while its tunnel opens.
	room = 4 << 20
	held = 1024
	// idle is how long nothing may come before a flow ends.
	idle = 10 * time.Second
)

// entry carries the datagrams that come to an address: a tunnel to the target for each sender, all over one connection.
func entry(ca, proxy, name, listen, target string) error {
	config, err := trusting(ca)
	if err != nil {
		return err
	}
	config.ServerName = name
	masquerade := &masque.Client{TLSClientConfig: config}
	address, err := net.ResolveUDPAddr("udp", listen)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	socket.SetReadBuffer(room)
	socket.SetWriteBuffer(room)
	var flows sync.Map
	buffer := make([]byte, 65536)
	for {
		count, from, err := socket.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return err
		}
		flow, known := flows.Load(from)
		if !known {
			flow = make(chan []byte, held)
			flows.Store(from, flow)
			go carry(masquerade, proxy, target, socket, from, flow.(chan []byte), &flows)
		}
		select {
		case flow.(chan []byte) <- append([]byte(nil), buffer[:count]...):
		default: // As a socket does that is full.
		}
	}
}

// carry is one flow, until its tunnel ends.
func carry(client *masque.Client, proxy, target string, socket *net.UDPConn, from netip.AddrPort, flow chan []byte, flows *sync.Map) {
	defer flows.Delete(from)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, response, err := client.DialAddr(ctx, template(proxy), target)
	if err != nil || response.StatusCode != 200 {
		return
	}
	defer conn.Close()
	go func() {
		buffer := make([]byte, 65536)
		for {
			count, _, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			socket.WriteToUDPAddrPort(buffer[:count], from)
		}
	}()
	look, busy := time.NewTicker(idle), true
	defer look.Stop()
	for {
		select {
		case datagram := <-flow:
			busy = true
			if _, err := conn.WriteTo(datagram, nil); err != nil {
				return
			}
		case <-look.C:
			if !busy {
				return
			}
			busy = false
		}
	}
}
