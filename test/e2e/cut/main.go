// Cut drops packets between the container whose network it joins and others, as a partition does: connections hang, nobody is
// told. It runs in a container of its own, with NET_ADMIN, and needs no rights on the host:
//
//	docker run --rm --network container:ID --cap-add NET_ADMIN holdfast-cut cut 172.18.0.3 n2.peers
//	docker run --rm --network container:ID --cap-add NET_ADMIN holdfast-cut cut --direction=in n2.peers
//	docker run --rm --network container:ID --cap-add NET_ADMIN holdfast-cut counter
//	docker run --rm --network container:ID --cap-add NET_ADMIN holdfast-cut heal
//
// Counter prints how many packets were dropped so far: the proof that the fault hit something. IPv4 only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/google/nftables"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) //nolint:forbidigo // this is main
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cut:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

var errUsage = errors.New("usage: cut [--direction=both|in|out] NAME-OR-IP...; counter; heal")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	switch args[0] {
	case "cut":
		return runCut(ctx, conn, args[1:])
	case "counter":
		dropped, err := counter(conn)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, dropped)
		return err
	case "heal":
		return heal(conn)
	default:
		return errUsage
	}
}

func runCut(ctx context.Context, conn *nftables.Conn, args []string) error {
	flags := flag.NewFlagSet("cut", flag.ContinueOnError)
	direction := flags.String("direction", "both", "both, in or out")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ways, err := directions(*direction)
	if err != nil {
		return err
	}
	ips, err := resolve(ctx, flags.Args())
	if err != nil {
		return err
	}
	return cut(conn, ways, ips)
}

// resolve returns the IPv4 addresses of names, before any packet of the resolver is dropped.
func resolve(ctx context.Context, names []string) ([]net.IP, error) {
	if len(names) == 0 {
		return nil, errUsage
	}
	var ips []net.IP
	for _, name := range names {
		found, err := net.DefaultResolver.LookupIP(ctx, "ip4", name)
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", name, err)
		}
		ips = append(ips, found...)
	}
	return ips, nil
}
