package play

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/bench/system"
)

const (
	// zooTimeout is the timeout that the clients of most works request.
	zooTimeout = 10 * time.Second
	// zooBuffer is the client's buffer, each way. Its default of 1.5 MB leaves no room for thousands of clients.
	zooBuffer = 16 << 10
	// zooFlight is how many clients connect at a time.
	zooFlight = 64
)

// zooWork is a work of the clients of ZooKeeper: all play it with go-zookeeper, unchanged.
func zooWork(name string, figures []Figure, bound time.Duration,
	play func(ctx context.Context, s *stage, c system.ZooServed) error,
) Work {
	return Work{
		Name: name, Figures: figures, Beside: true, bound: bound,
		play: func(ctx context.Context, s *stage) error {
			c, ok := s.Cluster.(system.ZooServed)
			if !ok {
				return errors.ErrUnsupported
			}
			return play(ctx, s, c)
		},
	}
}

// zooClient is a client with a session.
type zooClient struct {
	*zookeeper.Conn
	ready chan struct{}
	// has says that the client has got a session, lost that a session of it has ended.
	has, lost atomic.Bool
}

// zooConnect makes a client that knows some servers, and returns once it has a session.
func zooConnect(ctx context.Context, addresses []string, timeout time.Duration, dial zookeeper.Dialer) (*zooClient,
	error,
) {
	c := &zooClient{ready: make(chan struct{})}
	var err error
	if c.Conn, _, err = zookeeper.Connect(addresses, timeout, zookeeper.WithEventCallback(c.onEvent),
		zookeeper.WithLogger(zooQuiet{}), zookeeper.WithLogInfo(false), zookeeper.WithMaxBufferSize(zooBuffer),
		zookeeper.WithMaxConnBufferSize(zooBuffer), zookeeper.WithDialer(dial)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxFailover)
	defer cancel()
	select {
	case <-c.ready:
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("a client got no session: %w", context.Cause(ctx))
	}
}

// onEvent records the state of the session. Calls are not concurrent.
func (c *zooClient) onEvent(e zookeeper.Event) {
	if e.State == zookeeper.StateHasSession && !c.has.Swap(true) {
		close(c.ready)
	}
	if e.State == zookeeper.StateExpired {
		c.lost.Store(true)
	}
}

// zooConnectAll makes n clients, the i-th with the servers that of returns. An error has closed them all.
func zooConnectAll(ctx context.Context, n int, timeout time.Duration, of func(i int) []string) ([]*zooClient, *outcome,
	error,
) {
	all := make([]*zooClient, n)
	o, err := flood(ctx, n, zooFlight, func(i int, done func(error)) {
		go func() {
			var err error
			all[i], err = zooConnect(ctx, of(i), timeout, zooDial)
			done(err)
		}()
	})
	return all, o, err
}

// zooClose closes the sessions of clients, many at a time, when ctx has ended too. Each close is bounded by the client.
func zooClose(ctx context.Context, all []*zooClient) (took *outcome) {
	took, _ = flood(context.WithoutCancel(ctx), len(all), zooFlight, func(i int, done func(error)) {
		go func() {
			if all[i] != nil {
				all[i].Close()
			}
			done(nil)
		}()
	})
	return took
}

// zooOne returns one server for the i-th client.
func zooOne(c system.ZooServed) func(i int) []string {
	all := c.ZooAddresses()
	return func(i int) []string { return all[i%len(all):][:1] }
}

// zooQuiet drops what the client logs.
type zooQuiet struct{}

func (zooQuiet) Printf(string, ...any) {}
