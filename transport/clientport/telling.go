package clientport

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/session"
	"holdfast/transport/port"
)

// patient sends messages of a stream, and gives up on a client that takes none of them for too long, as [outbox] does.
type patient struct {
	send     func(proto.Message) error
	patience time.Duration
	late     *time.Timer
	// before is the size of the message before: gRPC takes a message when that one has gone.
	before int
	once   sync.Once
	// stuck is closed when the client has taken nothing for too long.
	stuck chan struct{}
}

func newPatient(patience time.Duration, send func(proto.Message) error) *patient {
	p := &patient{send: send, patience: patience, stuck: make(chan struct{})}
	p.late = time.AfterFunc(patience, func() { p.once.Do(func() { close(p.stuck) }) })
	p.late.Stop()
	return p
}

// say sends a message.
func (p *patient) say(m proto.Message) error {
	p.late.Reset(p.patience + slowness(p.before))
	defer p.late.Stop()
	p.before = proto.Size(m)
	return p.send(m)
}

// slowness is how much longer a client may take to read so many bytes.
func slowness(bytes int) time.Duration { return time.Duration(bytes) * time.Second / slowestRead }

// impatient is why the stream of a client ends that reads nothing.
func impatient(patience time.Duration) *session.LimitError {
	return &session.LimitError{
		Name: "outgoing_wait",
		Limit: fmt.Sprintf("%v, and a second for each %d KiB of a message, in which the client has not read it",
			patience, slowestRead>>10),
	}
}

// tell serves a stream on which only the node speaks: it lets tell send messages until tell returns, or the node or the
// client wants no more of them. tell has a goroutine of its own, because a send ends no sooner than the handler if the
// client does not read.
func (s *sessionServer) tell(ctx context.Context, method string, send func(proto.Message) error,
	tell func(ctx context.Context, say func(proto.Message) error) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	network, p, told := port.ConnOf(ctx), newPatient(s.cfg.Patience, send), make(chan error, 1)
	s.port.Pump(func() {
		told <- func() (err error) {
			defer s.port.Recovered(method, &err)
			return tell(ctx, p.say)
		}()
	})
	select {
	case err := <-told:
		return err
	case <-p.stuck:
		s.stats.slowReaders.Add(1)
		return impatient(s.cfg.Patience)
	case <-network.Condemned():
		s.stats.slowReaders.Add(1)
		return network.Err()
	case <-s.port.Stopping():
		return session.ErrStopping
	case <-s.streamsEnd:
		return session.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
