package clientport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// On the port: a stream that ends releases its slots.
func TestAnEndedStreamReleasesItsSlots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{RateLimits: ratelimit.Config{Resumes: 1}}, &fakeService{})
		defer stop()
		gone, stays := connected(t, network), connected(t, network)
		send(t, stays, resumeMessage(1, 1))
		receive(t, stays)
		for seq := uint64(1); seq <= 20; seq++ {
			send(t, gone, resumeMessage(seq, session.ID(seq)))
			if got := porttest.RefusedBy(t,
				wire.FailedError(receive(t, gone).GetFailed())).RetryAfter; got != time.Duration(seq)*time.Second {
				t.Fatalf("slot %d is after %v", seq, got)
			}
		}
		if err := gone.CloseSend(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		send(t, stays, resumeMessage(2, 2))
		if got := porttest.RefusedBy(t,
			wire.FailedError(receive(t, stays).GetFailed())).RetryAfter; got != time.Second {
			t.Errorf("behind a connection that has ended: told to wait %v", got)
		}
	})
}

// A request above its connection's limit uses up no budget.
func TestARequestThatIsNotBegunUsesUpNothing(t *testing.T) {
	var release chan struct{}
	service := &fakeService{
		open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return porttest.Grant(7), nil
		},
	}
	bubble.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		s, network, stop := clientPort(t,
			Config{
				Stream:     StreamLimits{Requests: 1},
				RateLimits: ratelimit.Config{Opens: 20, Resumes: 20, OpensAndResumesPerAddress: 30},
			}, service)
		defer stop()
		full, other := connected(t, network), connected(t, network)
		send(t, full, openMessage(1))
		synctest.Wait()
		for seq := uint64(2); seq < 20; seq++ {
			send(t, full, openMessage(seq), resumeMessage(100+seq, session.ID(seq)))
			for range 2 {
				if got := porttest.RefusedBy(t,
					wire.FailedError(receive(t, full).GetFailed())); got.Name != "max_requests_per_connection" {
					t.Fatalf("refused by %v", got)
				}
			}
		}
		send(t, other, resumeMessage(1, 1))
		if m := receive(t, other); m.GetResumed() == nil {
			t.Errorf("another connection: %v", wire.FailedError(m.GetFailed()))
		}
		if got := s.Stats().Refusals; got != (ratelimit.Refusals{}) {
			t.Errorf("counted %v", got)
		}
		close(release)
		receive(t, full)
	})
}
