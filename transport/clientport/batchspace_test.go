package clientport

import (
	"testing"
	"testing/synctest"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
)

// A client that reads all answers may send batches as fast as it can: the reader waits for the writer.
func TestBatchesWaitForSpace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{Stream: StreamLimits{Outgoing: 100}}, &fakeService{})
		defer stop()
		stream := connected(t, network)
		const batches, each = 50, 90
		go func() {
			for b := range batches {
				var requests []*holdfastv1.ClientMessage
				for i := range each {
					requests = append(requests, touchMessage(uint64(b*each+i+1)))
				}
				if stream.Send(batchMessage(requests...)) != nil {
					return
				}
			}
		}()
		all, _ := receiveAnswers(t, stream, batches*each)
		for i, m := range all {
			if m.GetTouched().GetSeq() != uint64(i+1) {
				t.Fatalf("answer %d is %v", i, m)
			}
		}
		_ = stream.CloseSend()
	})
}

// A batch in a batch is refused, so it holds nothing while the batch waits for space.
func TestABatchInABatchIsDropped(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		_, network, stop := clientPort(t, Config{}, &service.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, touchMessage(1))
		receive(t, stream)
		c, _ := service.newest().(*connection)
		nested := batchMessage(touchMessage(2), touchMessage(3))
		c.receive(t.Context(), batchMessage(nested))
		if n := len(nested.GetBatch().GetRequests()); n > 0 {
			t.Errorf("%d requests are kept", n)
		}
		_ = stream.CloseSend()
	})
}

// The requests in flight are answered in addition to the batches: one log entry may answer all of them at once,
// whatever waits for the client already. A client that reads as fast as it can loses no stream because of it.
func TestB1BatchesLeaveSpaceForUnansweredRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newAsynchronous()
		s, network, stop := clientPort(t, Config{}, &service.fakeService)
		defer stop()
		stalled := newStall()
		network.Cut = stalled.wrap
		stream := connected(t, network)
		batchOf := func(from uint64, request func(uint64) *holdfastv1.ClientMessage) *holdfastv1.ClientMessage {
			requests := make([]*holdfastv1.ClientMessage, session.MaxBatch)
			for i := range requests {
				requests[i] = request(from + uint64(i))
			}
			return batchMessage(requests...)
		}
		send(t, stream, batchOf(1, openMessage))
		opens := service.take()
		synctest.Wait()
		underWay := s.Stats().Waiting
		stalled.hold()
		const batches = 16 // more than what the network and gRPC hold, beside the queue
		for b := range uint64(batches) {
			send(t, stream, batchOf((b+1)*session.MaxBatch+1, func(seq uint64) *holdfastv1.ClientMessage {
				return touchMessage(seq)
			}))
		}
		synctest.Wait()
		c, _ := service.newest().(*connection)
		if n := len(c.out.queue); n < c.out.limit/2 {
			t.Errorf("%d answers wait: the test measures nothing", n)
		}
		counted := int(s.Stats().Waiting-underWay) - c.out.bytes
		if counted < session.MaxBatch*messageBytes/2 {
			t.Errorf("%d bytes are counted beside opens and answers, want those of the batch that waits for room", counted)
		}
		for i, open := range opens {
			open.done(porttest.Grant(session.ID(i+1)), nil)
		}
		synctest.Wait()
		if got := s.Stats().SlowReaders; got != 0 {
			t.Errorf("%d streams were ended for answers that the node owed", got)
		}
		stalled.release()
		receiveAnswers(t, stream, (1+batches)*session.MaxBatch)
		_ = stream.CloseSend()
	})
}
