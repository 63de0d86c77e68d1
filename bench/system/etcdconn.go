package system

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// etcdConn is a client of one server: a connection, and on it a stream of keep-alives. A session is a lease.
type etcdConn struct {
	//nolint:containedctx // the connection's life
	ctx     context.Context
	cancel  context.CancelFunc
	conn    *grpc.ClientConn
	keep    grpc.ClientStream
	wake    chan struct{}
	running sync.WaitGroup

	mu sync.Mutex
	// all are the living leases; queued are keep-alives to be sent; waiting are those that wait for the keep-alives of
	// a lease, in order. All guarded by mu.
	all     map[int64]struct{}
	queued  []int64
	waiting map[int64][]func(error)
	// ended says why the stream has ended; guarded by mu.
	ended error
}

//nolint:contextcheck // the stream's context is the connection's own, made from ctx
func newEtcdConn(ctx context.Context, address string) (*etcdConn, error) {
	conn, err := etcdDial(address)
	if err != nil {
		return nil, err
	}
	c := &etcdConn{
		conn: conn, wake: make(chan struct{}, 1), all: map[int64]struct{}{}, waiting: map[int64][]func(error){},
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	bound := time.AfterFunc(requestWait, c.cancel)
	c.keep, err = conn.NewStream(c.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, etcdKeepAlive,
		grpc.WaitForReady(true))
	if err != nil || !bound.Stop() {
		c.cancel()
		return nil, errors.Join(err, c.ctx.Err(), conn.Close())
	}
	c.running.Go(c.send)
	c.running.Go(c.receive)
	return c, nil
}

// Open grants a lease.
func (c *etcdConn) Open(timeout time.Duration, done func(Session, error)) {
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		var answer raw
		if err := c.conn.Invoke(ctx, etcdGrant, numbers(int64(timeout.Seconds())), &answer); err != nil {
			done(nil, err)
			return
		}
		id, _, err := lease(answer)
		if err != nil {
			done(nil, err)
			return
		}
		c.mu.Lock()
		c.all[id] = struct{}{}
		c.mu.Unlock()
		done(id, nil)
	})
}

// Close revokes a lease.
func (c *etcdConn) Close(held Session, done func(error)) {
	id := held.(int64) //nolint:errcheck // this system's own
	c.mu.Lock()
	delete(c.all, id)
	c.mu.Unlock()
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		var answer raw
		done(c.conn.Invoke(ctx, etcdRevoke, numbers(id), &answer))
	})
}

// Touch sends a keep-alive for each lease.
func (c *etcdConn) Touch(done func(error)) {
	c.mu.Lock()
	all := make([]int64, 0, len(c.all))
	for id := range c.all {
		all = append(all, id)
	}
	c.mu.Unlock()
	join := join(len(all), done)
	for _, id := range all {
		c.TouchOne(id, join)
	}
}

// TouchOne sends one message for one session. It need not have been opened here.
func (c *etcdConn) TouchOne(held Session, done func(error)) {
	id := held.(int64) //nolint:errcheck // this system's own
	c.mu.Lock()
	if err := c.ended; err != nil {
		c.mu.Unlock()
		done(err)
		return
	}
	c.waiting[id] = append(c.waiting[id], done)
	c.queued = append(c.queued, id)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Reattach keeps a lease alive from here on.
func (c *etcdConn) Reattach(held Session, done func(error)) {
	c.mu.Lock()
	c.all[held.(int64)] = struct{}{} //nolint:errcheck // this system's own
	c.mu.Unlock()
	c.TouchOne(held, done)
}

func (c *etcdConn) send() {
	var sending []int64
	for {
		c.mu.Lock()
		sending, c.queued = c.queued, sending[:0]
		c.mu.Unlock()
		for _, id := range sending {
			if c.keep.SendMsg(numbers(id)) != nil { // receive learns why
				return
			}
		}
		if len(sending) > 0 {
			continue
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *etcdConn) receive() {
	for {
		var answer raw
		err := c.keep.RecvMsg(&answer)
		var id, ttl int64
		if err == nil {
			id, ttl, err = lease(answer)
		}
		if err != nil {
			c.end(errors.Join(ErrEnded, err))
			return
		}
		c.mu.Lock()
		var answered func(error)
		if w := c.waiting[id]; len(w) > 1 {
			answered, c.waiting[id] = w[0], w[1:]
		} else if len(w) == 1 {
			answered = w[0]
			delete(c.waiting, id)
		}
		if ttl == 0 {
			delete(c.all, id)
		}
		c.mu.Unlock()
		switch {
		case answered == nil:
		case ttl == 0:
			answered(ErrExpired)
		default:
			answered(nil)
		}
	}
}

func (c *etcdConn) end(why error) {
	c.mu.Lock()
	c.ended = why
	waiting := c.waiting
	c.waiting = map[int64][]func(error){}
	c.mu.Unlock()
	for _, w := range waiting {
		for _, answered := range w {
			answered(why)
		}
	}
}

// Alive returns the number of leases in the cluster, as the server of this connection knows it.
func (c *etcdConn) Alive(ctx context.Context) (int, error) { return etcdCount(ctx, c.conn) }

// End drops the connection.
func (c *etcdConn) End() {
	c.cancel()
	_ = c.conn.Close()
	c.running.Wait()
}
