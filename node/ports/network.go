package ports

import (
	"context"
	"net"
)

// Network listens and dials for a node. A simulation has its own.
type Network interface {
	Listen(address string) (net.Listener, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

type tcp struct{}

func (tcp) Listen(address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp", address) //nolint:forbidigo // binding a port waits for nothing
}

func (tcp) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
