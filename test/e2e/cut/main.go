// Cut causes faults around a node, from a container of its own. It joins the node's network and drops packets, as a
// partition does: connections hang, and neither end is told. It needs NET_ADMIN, and no rights on the host:
//
//	alias cut='docker run --rm --network container:ID --cap-add NET_ADMIN holdfast-cut'
//	cut cut 172.18.0.3 n2.peers
//	cut cut --direction=in --port=7401 --loss=20 n2.peers
//	cut counter
//	cut heal
//
// Counter prints the direction, the address and the number of dropped packets of each rule: the proof that the fault
// hit something. Rules are for IPv4 only.
//
// Cut also mounts the node's volume, after the node has stopped or beside it:
//
//	docker run --rm -v VOLUME:/data holdfast-cut fill /data        (until the volume is full)
//	docker run --rm -v VOLUME:/data holdfast-cut fill --leave=4194304 /data
//	docker run --rm -v VOLUME:/data holdfast-cut free /data
//	docker run --rm -v VOLUME:/data holdfast-cut tear --garble=16384 /data/log/SEGMENT
//	docker run --rm -v VOLUME:/data holdfast-cut empty /data
//	docker run -d -v VOLUME:/data holdfast-cut hold                (keeps a volume in memory when the node stops)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/nftables"
)

// timeout bounds every command except hold.
const timeout = 30 * time.Second

func main() {
	//nolint:forbidigo // this is main
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cut:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

var errUsage = errors.New("usage: cut [--direction=both|in|out] [--port=PORT] [--loss=PERCENT] NAME-OR-IP...; " +
	"counter; heal; " +
	"fill [--leave=BYTES] DIR; free DIR; tear [--garble=BYTES] [--cut=BYTES] FILE; empty DIR; hold")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	if args[0] == "hold" {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch args[0] {
	case "cut", "counter", "heal":
		return runNetwork(ctx, args[0], args[1:], out)
	case "fill", "free", "tear", "empty":
		return runDisk(ctx, args[0], args[1:], out)
	default:
		return errUsage
	}
}

func runNetwork(ctx context.Context, name string, args []string, out io.Writer) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	switch name {
	case "cut":
		return runCut(ctx, conn, args)
	case "counter":
		all, err := counter(conn)
		for _, d := range all {
			_, printed := fmt.Fprintln(out, d.way, d.ip, d.packets)
			err = errors.Join(err, printed)
		}
		return err
	default:
		return heal(conn)
	}
}

func runCut(ctx context.Context, conn *nftables.Conn, args []string) error {
	flags := flag.NewFlagSet("cut", flag.ContinueOnError)
	direction := flags.String("direction", "both", "both, in or out")
	port := flags.Uint("port", 0, "TCP port of either side; 0 is all that is sent")
	loss := flags.Uint("loss", everything, "percentage of the packets that is dropped, at random")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ways, err := directions(*direction)
	if err != nil {
		return err
	}
	if *port > math.MaxUint16 || *loss == 0 || *loss > everything {
		return errUsage
	}
	ips, err := resolve(ctx, flags.Args())
	if err != nil {
		return err
	}
	return cut(conn, fault{ways: ways, ips: ips, port: uint16(*port), loss: uint32(*loss)})
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
