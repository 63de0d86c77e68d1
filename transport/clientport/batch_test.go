package clientport

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

func batchMessage(requests ...*holdfastv1.ClientMessage) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{
		Message: &holdfastv1.ClientMessage_Batch{Batch: &holdfastv1.Batch{Requests: requests}},
	}
}

// receiveAnswers receives messages until it has n answers and events, and returns them one by one. It checks that only
// the outer messages have a state.
func receiveAnswers(t *testing.T, stream holdfastv1.SessionService_ConnectClient,
	n int,
) (all []*holdfastv1.ServerMessage, messages int) {
	t.Helper()
	stream = separate.Joined(stream)
	for len(all) < n {
		m := receive(t, stream)
		messages++
		if m.GetState() == nil {
			t.Fatalf("a message has no state: %.200v", m)
		}
		joined := m.GetAnswers().GetMessages()
		if m.GetAnswers() == nil {
			joined = []*holdfastv1.ServerMessage{m}
		} else if len(joined) < 2 {
			t.Errorf("%d answers are joined", len(joined))
		}
		for _, one := range joined {
			if m != one && (one.GetState() != nil || one.GetAnswers() != nil) {
				t.Errorf("a joined answer has a state or answers of its own: %v", one)
			}
		}
		all = append(all, joined...)
	}
	if len(all) > n {
		t.Errorf("%d answers, want %d: %v", len(all), n, all[n:])
	}
	return all, messages
}

// asynchronous is a node that holds the requests which it is asked to start.
type asynchronous struct {
	fakeService
	mu   sync.Mutex
	held []held
}

type held struct {
	session.Request
	done func(session.Grant, error)
}

func newAsynchronous() *asynchronous {
	a := &asynchronous{}
	a.start = func(r session.Request, done func(session.Grant, error)) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.held = append(a.held, held{r, done})
		return true
	}
	return a
}

// take returns the held requests, in the order of arrival.
func (a *asynchronous) take() []held {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.held
	a.held = nil
	return all
}

// The requests of a batch are served in their order, each as if it had come alone, and a refused one costs the others
// nothing. What is answered at the same time comes in one message.
func TestABatchIsServedAsItsRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		_, network, stop := clientPort(t, Config{}, &service.fakeService)
		defer stop()
		stream := connected(t, network)
		bad := openMessage(3)
		bad.GetOpen().Timeout = nil
		send(t, stream, batchMessage(openMessage(1), touchMessage(2, 8), bad, resumeMessage(4, 9), closeMessage(5, 10)))
		early, _ := receiveAnswers(t, stream, 2)
		if early[0].GetTouched().GetSeq() != 2 || early[1].GetFailed().GetSeq() != 3 ||
			early[1].GetFailed().GetError().GetField() != "timeout" {
			t.Errorf("before the node answered: %v, want the touch and the refusal of a bad open", early)
		}
		asked := service.take()
		if len(asked) != 3 || asked[0].Open == nil || asked[1].Resume == nil || asked[2].Close == nil {
			t.Fatalf("the node was asked %+v, want an open, a resume and a close", asked)
		}
		stalled := make(chan struct{})
		go func() { // all at once, the writer can take them together
			defer close(stalled)
			asked[2].done(session.Grant{}, nil)
			asked[0].done(porttest.Grant(8), nil)
			asked[1].done(session.Grant{}, session.ErrMoved)
		}()
		<-stalled
		late, _ := receiveAnswers(t, stream, 3)
		if late[0].GetClosed().GetSeq() != 5 || late[1].GetOpened().GetSeq() != 1 ||
			late[2].GetFailed().GetSeq() != 4 {
			t.Errorf("answers %v, want those to 5, 1 and 4 in the order in which the node told them", late)
		}
		_ = stream.CloseSend()
	})
}

// Answers that wait together are joined, also for a client that sends its requests one by one.
func TestAnswersAreJoined(t *testing.T) {
	const n = 1000
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		_, network, stop := clientPort(t, Config{Stream: StreamLimits{Requests: n}}, &service.fakeService)
		defer stop()
		stalled := newStall()
		network.Cut = stalled.wrap
		stream := connected(t, network)
		for seq := range uint64(n) {
			send(t, stream, openMessage(seq+1))
		}
		asked := service.take()
		stalled.hold()
		for i, a := range asked {
			a.done(porttest.Grant(session.ID(i+1)), nil)
		}
		stalled.release()
		all, messages := receiveAnswers(t, stream, n)
		for i, m := range all {
			if m.GetOpened().GetSeq() != uint64(i+1) {
				t.Fatalf("answer %d is %v", i, m)
			}
		}
		if messages > n/10 {
			t.Errorf("%d answers came in %d messages", n, messages)
		}
		_ = stream.CloseSend()
	})
}

// A bad batch is refused as a whole, by its field and limit. The stream continues.
func TestBadBatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		_, network, stop := clientPort(t, Config{}, &service.fakeService)
		defer stop()
		stream := connected(t, network)
		large := make([]*holdfastv1.ClientMessage, session.MaxBatch+1)
		for i := range large {
			large[i] = openMessage(uint64(i + 1))
		}
		for name, tt := range map[string]struct {
			message *holdfastv1.ClientMessage
			limit   string
		}{
			"empty":     {batchMessage(), "1 to 1024 requests"},
			"too large": {batchMessage(large...), "1 to 1024 requests"},
			"a batch":   {batchMessage(batchMessage(openMessage(1))), "must hold no batch"},
		} {
			send(t, stream, tt.message)
			f := receive(t, stream).GetFailed()
			if f.GetSeq() != 0 || f.GetError().GetReason() != holdfastv1.Reason_REASON_INVALID_ARGUMENT ||
				f.GetError().GetField() != "batch.requests" || f.GetError().GetLimit() != tt.limit {
				t.Errorf("%s: %v, want the field batch.requests and the limit %q", name, f, tt.limit)
			}
		}
		if asked := service.take(); len(asked) > 0 {
			t.Errorf("bad batches asked the node %+v", asked)
		}
		send(t, stream, batchMessage(batchMessage(), touchMessage(7), &holdfastv1.ClientMessage{}))
		all, _ := receiveAnswers(t, stream, 3)
		if all[0].GetFailed() == nil || all[1].GetTouched().GetSeq() != 7 ||
			all[2].GetFailed().GetError().GetField() != "message" {
			t.Errorf("a batch beside a touch: %v", all)
		}
		_ = stream.CloseSend()
	})
}

// The bounds of a stream and the budgets of the node count the requests of a batch one by one. Each refusal by a budget
// has a retry moment of its own.
func TestBoundsCountTheRequestsOfABatch(t *testing.T) {
	const sent, served = 30, 20
	for name, cfg := range map[string]Config{
		"max_requests_per_connection": {Stream: StreamLimits{Requests: served}},
		"max_sessions_per_connection": {Stream: StreamLimits{Sessions: served}},
		"max_opens_per_second":        {RateLimits: ratelimit.Config{Opens: 10 * served}}, // a tenth of them at once
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				service := newAsynchronous()
				s, network, stop := clientPort(t, cfg, &service.fakeService)
				defer stop()
				stream := connected(t, network)
				var requests []*holdfastv1.ClientMessage
				for seq := range uint64(sent) {
					o := openMessage(seq + 1)
					o.GetOpen().RequestId[0] = byte(seq)
					requests = append(requests, o)
				}
				send(t, stream, batchMessage(requests...))
				refused, _ := receiveAnswers(t, stream, sent-served)
				var waits []time.Duration
				for i, m := range refused {
					limit, _ := errors.AsType[*session.LimitError](wire.FailedError(m.GetFailed()))
					if seq := m.GetFailed().GetSeq(); limit == nil || limit.Name != name || seq != uint64(served+1+i) {
						t.Fatalf("answered %v, want request %d refused by %s", m, served+1+i, name)
					}
					waits = append(waits, limit.RetryAfter)
				}
				if apart := len(slices.Compact(waits)) == sent-served; apart != (name == "max_opens_per_second") {
					t.Errorf("retry moments %v, want one for each request that a budget refused", waits)
				}
				asked := service.take()
				for i, a := range asked {
					a.done(porttest.Grant(session.ID(i+1)), nil)
				}
				receiveAnswers(t, stream, served)
				if got := s.Stats().Sessions; got != served || len(asked) != served {
					t.Errorf("%d sessions are counted after %d opens, want %d", got, len(asked), served)
				}
				_ = stream.CloseSend()
			})
		})
	}
}

// A stream whose client has closed its side ends once the node has returned the outcomes of all requests.
func TestAHalfClosedStreamAnswersWhatWasStarted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		_, network, stop := clientPort(t, Config{}, &service.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, batchMessage(openMessage(1), openMessage(2)))
		_ = stream.CloseSend()
		asked := service.take()
		asked[1].done(porttest.Grant(2), nil)
		if m := receive(t, stream); m.GetOpened().GetSeq() != 2 {
			t.Errorf("answered %v", m)
		}
		synctest.Wait()
		if service.ended() != 0 {
			t.Error("the stream ended before its requests were answered")
		}
		asked[0].done(porttest.Grant(1), nil)
		if m := receive(t, stream); m.GetOpened().GetSeq() != 1 {
			t.Errorf("answered %v", m)
		}
		if _, err := stream.Recv(); err == nil || service.ended() != 1 {
			t.Errorf("the stream goes on: %v", err)
		}
	})
}

// Outcomes that come after the end of their stream change nothing, and the end does not wait for them.
func TestOutcomesAfterTheEndOfAStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		s, network, stop := clientPort(t, Config{}, &service.fakeService)
		defer stop()
		conn := dialPipes(t, network)
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(conn).Connect(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, batchMessage(openMessage(1), openMessage(2)))
		asked := service.take()
		conn.Close()
		synctest.Wait()
		if got := s.Stats(); got.Streams != 0 || service.ended() != 1 {
			t.Errorf("%d streams, %d connections have ended: the stream waits for the node", got.Streams, service.ended())
		}
		asked[0].done(porttest.Grant(1), nil)
		asked[1].done(session.Grant{}, session.ErrOutcomeUnknown)
		if got := s.Stats(); got.Sessions != 0 || got.Waiting != 0 {
			t.Errorf("%d sessions and %d bytes are counted after the end", got.Sessions, got.Waiting)
		}
	})
}

// A request that panics as it is started, or whose outcome is a panic, is answered once, and logged once. Its stream
// continues.
func TestPanicsOfStartedRequestsAreAnswered(t *testing.T) {
	var log porttest.LogBuffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log})
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		s, network, stop := clientPort(t, Config{Logger: logger}, service)
		defer stop()
		service.start = func(r session.Request, done func(session.Grant, error)) bool {
			switch {
			case r.Open != nil:
				panic("secret")
			case r.Resume != nil:
				done(session.Grant{}, &session.PanicError{Value: "secret"})
			default:
				done(session.Grant{}, nil)
				panic("secret after the outcome")
			}
			return true
		}
		stream := connected(t, network)
		send(t, stream, openMessage(1), resumeMessage(2, 7), closeMessage(3, 7), touchMessage(4))
		for seq := range uint64(2) {
			if f := receive(t, stream).GetFailed(); f.GetSeq() != seq+1 || f.GetError() != nil &&
				f.GetError().GetReason() != holdfastv1.Reason_REASON_UNSPECIFIED {
				t.Errorf("answered %v, want the failure of %d", f, seq+1)
			}
		}
		if m := receive(t, stream); m.GetClosed().GetSeq() != 3 {
			t.Errorf("answered %v, want the close once", m)
		}
		if m := receive(t, stream); m.GetTouched().GetSeq() != 4 {
			t.Errorf("answered %v, want the touch", m)
		}
		if got := s.Stats().Panics; got != 3 {
			t.Errorf("counted %d panics, want 3", got)
		}
		if got := strings.Count(log.String(), "[ERROR]"); got != 3 {
			t.Errorf("%d errors are logged for 3 panics:\n%s", got, &log)
		}
		_ = stream.CloseSend()
	})
}
