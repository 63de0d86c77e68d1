// Faultd is a disk that a test can break, in a process of its own, so that a power cut of the disk does not hit the
// test. It mounts an empty disk on a directory, listens on a socket for [faultfs.Control], and writes "mounted" to
// stdout. It unmounts and ends at the end of its stdin, which also comes when the starting process dies, or on a
// signal.
//
//	faultd DIRECTORY SOCKET
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"holdfast/test/disk/faultfs"
)

func main() {
	//nolint:forbidigo // this is main
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "faultd:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: faultd DIRECTORY SOCKET")
	}
	var config net.ListenConfig
	socket, err := config.Listen(ctx, "unix", args[1])
	if err != nil {
		return err
	}
	mount, err := faultfs.Mount(args[0])
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	ended := make(chan error, 2)
	go func() { ended <- mount.Serve(socket) }()
	go func() {
		_, gone := io.Copy(io.Discard, stdin)
		ended <- gone
	}()
	if _, err = fmt.Fprintln(stdout, "mounted"); err == nil {
		select {
		case err = <-ended:
		case <-ctx.Done():
		}
	}
	return errors.Join(err, mount.Unmount(), socket.Close())
}
