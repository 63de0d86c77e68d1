package clientport

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

// TestAnswersWithLabelsFit: a client that comes back with many sessions resumes as many at once as it may, and one log
// entry answers all of them. With labels of 10 KB these answers must not end its stream.
func TestAnswersWithLabelsFit(t *testing.T) {
	const requests = 1024
	var labels session.Labels
	for i := range session.MaxLabels {
		labels = append(labels, session.Label{
			Key:   strings.Repeat("a", session.MaxLabelKey-2) + strconv.Itoa(10+i),
			Value: strings.Repeat("b", session.MaxLabelValue),
		})
	}
	if err := labels.Check(); err != nil {
		t.Fatal(err)
	}
	var release chan struct{}
	service := &fakeService{resume: func(ctx context.Context, r session.ResumeRequest) (session.Grant, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		g := porttest.Grant(r.Token.ID)
		g.Session.Labels = labels
		return g, ctx.Err()
	}}
	bubble.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		for i := range uint64(requests) {
			send(t, stream, resumeMessage(i+1, session.ID(i+1)))
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		for range requests {
			if receive(t, stream).GetResumed() == nil {
				t.Fatal("a resume was refused")
			}
		}
		if got := s.Stats(); got.SlowReaders+got.Overfull != 0 {
			t.Errorf("stats %+v", got)
		}
	})
}
