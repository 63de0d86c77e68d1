package clientport

import (
	"context"
	"net"
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
)

// A client dials the address as it was given: a zone is not an escape of a URL, also where it could be one, such as
// %25.
func TestAnAddressIsDialledAsItWasGiven(t *testing.T) {
	for _, address := range []string{
		"node:7400", "[2001:db8::1]:7400", "[fe80::1%eth0]:7400", "[fe80::1%25]:7400",
		"[fe80::1%2]:7400",
	} {
		t.Run(address, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				_, network, stop := clientPort(t, Config{}, &fakeService{})
				defer stop()
				dialled := make(chan string, 1)
				conn, err := dial.Client(address,
					dial.Options{Dial: func(ctx context.Context, to string) (net.Conn, error) {
						dialled <- to
						return network.Dial(ctx, to)
					}})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err = holdfastv1.NewClusterServiceClient(conn).GetStatus(ctx,
					&holdfastv1.GetStatusRequest{}); err != nil {
					t.Fatal(err)
				}
				if got := <-dialled; got != address {
					t.Errorf("dialled %q", got)
				}
			})
		})
	}
}
