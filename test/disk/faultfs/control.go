package faultfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"

	"holdfast/test/disk/simdisk"
)

// Serve answers on a listener until it is closed.
func (f *FS) Serve(l net.Listener) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Disk", remote{f}); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go server.ServeConn(conn)
	}
}

// remote is a disk's methods for net/rpc.
type remote struct{ *FS }

// Control controls a disk that another process has mounted. Safe for concurrent use.
type Control struct{ client *rpc.Client }

// Dial connects to the socket of a daemon.
func Dial(ctx context.Context, socket string) (*Control, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	return &Control{rpc.NewClient(conn)}, nil
}

// Close ends the connection.
func (c *Control) Close() error { return c.client.Close() }

// call bounds a call by ctx.
func (c *Control) call(ctx context.Context, method string, args, reply any) error {
	call := c.client.Go("Disk."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if call.Error != nil {
			return fmt.Errorf("disk: %s: %w", method, call.Error)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("disk: %s: %w", method, ctx.Err())
	}
}

// Freeze is [FS.Freeze].
func (c *Control) Freeze(ctx context.Context, when Freezing) error {
	return c.call(ctx, "Freeze", when, &struct{}{})
}

// Drop is [FS.Drop].
func (c *Control) Drop(ctx context.Context) error {
	return c.call(ctx, "Drop", struct{}{}, &struct{}{})
}

// Cut is [FS.Cut].
func (c *Control) Cut(ctx context.Context, how Cutting) (simdisk.Loss, error) {
	var loss simdisk.Loss
	err := c.call(ctx, "Cut", how, &loss)
	return loss, err
}

// Set is [FS.Set].
func (c *Control) Set(ctx context.Context, faults Faults) error {
	return c.call(ctx, "Set", faults, &struct{}{})
}

// Stats is [FS.Stats].
func (c *Control) Stats(ctx context.Context) (Counts, error) {
	var counts Counts
	err := c.call(ctx, "Stats", struct{}{}, &counts)
	return counts, err
}
