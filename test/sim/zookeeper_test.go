package sim

import (
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/test/sim/simnet"
)

// zookeeper is a client of the ZooKeeper port. It holds one session after the other with pings, at one node after the
// other, and closes half of them. It uses the port without a library, so it knows when it sent each ping.
type zookeeper struct {
	w    *world
	name string
	rand *rand.Rand
	host *simnet.Host

	id       session.ID // 0 while it has no session
	password []byte
	timeout  time.Duration
	zxid     int64 // the newest that it has seen
}

// zookeepers says whether a cluster serves the ZooKeeper port, and clients use it: every other seed.
func (w *world) zookeepers() bool { return w.seed%2 == 1 }

func (w *world) zookeeper(name string) *zookeeper {
	return &zookeeper{w: w, name: name, rand: w.stream(name), host: w.Host(name)}
}

func (z *zookeeper) between(low, high time.Duration) time.Duration {
	return low + time.Duration(z.rand.Int64N(int64(high-low)))
}

// live holds one session after the other until ctx ends.
func (z *zookeeper) live(ctx context.Context) {
	for ctx.Err() == nil {
		z.id, z.password, z.timeout = 0, make([]byte, 16), 6*time.Second
		end := z.w.record.Now() + z.between(5*time.Second, 40*time.Second)
		for over := false; !over; {
			over = ctx.Err() != nil || z.w.record.Now() >= end || z.visit(ctx, end)
			sleep(ctx, z.between(20*time.Millisecond, 300*time.Millisecond))
		}
		if z.id != 0 {
			z.w.record.Add(history.Event{Kind: history.Silent, Who: z.name, ID: z.id})
		}
	}
}

// visit holds the session at a node until the connection fails, the session has ended, or end, and reports whether the
// session is over.
func (z *zookeeper) visit(ctx context.Context, end time.Duration) (over bool) {
	within, cancel := context.WithTimeout(ctx, z.timeout/3)
	defer cancel()
	node := z.w.names[z.rand.IntN(len(z.w.names))]
	conn, err := z.host.Dial(within, node+":7404")
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if served, expired := z.connect(conn, node); !served {
		return expired
	}
	for z.w.record.Now() < end {
		sent := z.w.record.Now()
		if z.ask(conn, -2, 11) != nil {
			return false
		}
		// Z5: the answer was sent after the ping, and by then the promise was two thirds of the timeout at least.
		z.w.record.Add(history.Event{
			Kind: history.Promised, Who: z.name, ID: z.id, Sent: sent, Until: sent + z.timeout*2/3,
		})
		sleep(ctx, z.between(z.timeout/6, z.timeout/3))
	}
	if z.rand.IntN(2) == 0 {
		z.close(conn)
	}
	return true
}

// connect asks for a session, or for the session that the client has. Without an answer it is not served. expired: the
// node answers that the session has ended, so a node has applied its end (Z3 expired).
func (z *zookeeper) connect(conn net.Conn, node string) (served, expired bool) {
	b := binary.BigEndian.AppendUint32(nil, 0) // the version of the protocol
	b = binary.BigEndian.AppendUint64(b, uint64(z.zxid))
	b = binary.BigEndian.AppendUint32(b, uint32((6 * time.Second).Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(z.id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(z.password)))
	b = append(append(b, z.password...), 0) // not read-only
	sent, former := z.w.record.Now(), session.Token{ID: z.id}
	answer, err := z.exchange(conn, b)
	if former.ID != 0 {
		z.w.tookOver(z.name, 0, former, sent)
	}
	if err != nil || len(answer) < 20 {
		return false, false
	}
	timeout := time.Duration(binary.BigEndian.Uint32(answer[4:])) * time.Millisecond
	id := session.ID(binary.BigEndian.Uint64(answer[8:]))
	switch {
	case timeout == 0 && z.id == 0:
		z.w.failf("%s has no session, and %s says that it has expired", z.name, node)
		return false, true
	case timeout == 0:
		if !z.w.hasEnded(z.id) {
			z.w.failAbout(z.id, "%s says that it has expired, and no node has applied its end", node)
		}
		return false, true
	case z.id != 0 && id != z.id:
		z.w.failAbout(z.id, "%s got %s instead at %s", z.name, id, node)
		return false, true
	}
	z.id, z.timeout = id, timeout
	copy(z.password, answer[20:])
	return true, false
}

// close closes the session.
func (z *zookeeper) close(conn net.Conn) {
	sent := z.w.record.Now()
	z.w.record.Add(history.Event{Kind: history.CloseSent, Who: z.name, ID: z.id})
	if z.ask(conn, 1, -11) == nil {
		z.w.record.Add(history.Event{Kind: history.Closed, Who: z.name, ID: z.id, Sent: sent})
		z.id = 0
	}
}

// ask sends a request without a body, and waits for its answer. A refusal is an error.
func (z *zookeeper) ask(conn net.Conn, xid, op int32) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	answer, err := z.exchange(conn, binary.BigEndian.AppendUint32(b, uint32(op)))
	if err != nil {
		return err
	}
	if len(answer) != 16 || int32(binary.BigEndian.Uint32(answer)) != xid || binary.BigEndian.Uint32(answer[12:]) != 0 {
		return io.ErrUnexpectedEOF
	}
	z.zxid = max(z.zxid, int64(binary.BigEndian.Uint64(answer[4:])))
	return nil
}

// exchange sends a frame and returns the next one, which is due within a third of the timeout.
func (z *zookeeper) exchange(conn net.Conn, body []byte) ([]byte, error) {
	_ = conn.SetDeadline(time.Now().Add(z.timeout / 3))
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return nil, err
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(conn, length); err != nil {
		return nil, err
	}
	answer := make([]byte, min(binary.BigEndian.Uint32(length), 1024))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// hasEnded reports whether a node has applied the end of a session.
func (w *world) hasEnded(id session.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.ended[id]
	return ok
}
