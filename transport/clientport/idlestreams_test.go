package clientport

import (
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/bubble"
	"holdfast/test/separate"
)

// TestIdleStreams: of many idle streams of a connection, the last one stays, because the client would open it again.
func TestIdleStreams(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		before := heap()
		speaking(t, network)
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		streams := make([]holdfastv1.SessionService_ConnectClient, 60)
		for i := range streams {
			var err error
			if streams[i], err = separate.Stream(c.Connect(t.Context())); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				send(t, streams[i], resumeMessage(1, 7))
			} else {
				send(t, streams[i], touchMessage(1))
			}
			receive(t, streams[i])
		}
		for n := range 3 {
			time.Sleep(idleStreamWait * 2 / 3)
			if err := streams[1].Send(touchMessage(uint64(n + 2))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := s.Stats(); got.Streams != 3 || got.Calls != 3 {
			t.Errorf("stats %+v, want the lone stream, the stream with a session and the stream that speaks", got)
		}
		if _, err := streams[2].Recv(); limitNamed(err) != "idle_stream_timeout" {
			t.Errorf("an idle stream ended with %v", err)
		}
		if kept := heap() - before; kept > 1<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}

// A quiet stream keeps nothing of its last message, however large it was.
func TestAQuietStreamKeepsNoMessage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		const large = 1_000_000
		before := 0
		for i := range 5 {
			stream, err := separate.Stream(c.Connect(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			m := openMessage(1)
			m.GetOpen().RequestId = make([]byte, large) // is refused
			send(t, stream, m)
			if receive(t, stream).GetFailed() == nil {
				t.Error("the message was accepted")
			}
			synctest.Wait()
			if i == 0 {
				before = heap() // with what one connection and one stream keep in pools
			}
		}
		if kept := heap() - before; kept > large {
			t.Errorf("%d bytes are kept by four quiet streams", kept)
		}
	})
}
