package main

import (
	"context"
	"os"

	connectip "github.com/quic-go/connect-ip-go"
	"golang.org/x/sys/unix"
)

// tunClient carries the packets of a TUN device that it makes, whose address and routes are not its concern. The certificate
// of the proxy is for `name`.
func tunClient(ca, proxy, name, device string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, _, err := dial(ctx, ca, proxy, name)
	if err != nil {
		return err
	}
	if _, err := conn.ReceiveAddressAssignment(ctx); err != nil {
		return err
	}
	if _, err := conn.Routes(ctx); err != nil {
		return err
	}
	return carry(conn, device)
}

// carry moves packets between a tunnel and a TUN device until one of them ends.
func carry(conn *connectip.Conn, device string) error {
	defer conn.Close()
	tun, err := open(device)
	if err != nil {
		return err
	}
	defer tun.Close()

	failed := make(chan error, 2)
	go func() {
		room := make([]byte, longest)
		for {
			count, err := conn.ReadPacket(room)
			if err != nil {
				failed <- err
				return
			}
			// What the device does not take is lost, as on any link.
			tun.Write(room[:count])
		}
	}()
	go func() {
		room := make([]byte, longest)
		for {
			count, err := tun.Read(room)
			if err != nil {
				failed <- err
				return
			}
			icmp, err := conn.WritePacket(room[:count])
			if err != nil {
				failed <- err
				return
			}
			if icmp != nil {
				tun.Write(icmp)
			}
		}
	}()
	return <-failed
}

// open makes a TUN device whose packets have no header before them.
func open(device string) (*os.File, error) {
	descriptor, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(device)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(descriptor, unix.TUNSETIFF, request); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(descriptor, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(descriptor), device), nil
}
