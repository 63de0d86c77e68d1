package raftnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/fuzz/bound"
)

// saying is a connection on which the other side has sent all its bytes already.
type saying struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *saying) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *saying) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s *saying) SetDeadline(time.Time) error { return nil }
func (s *saying) Close() error                { return nil }

// FuzzGreeting gives a node any first bytes on its Raft port. The node answers only another node of its own cluster,
// and accepts nobody who says all at once: a proof needs the answer. It sends any other node that speaks the protocol
// the reason of the refusal, and keeps no more than a greeting's size.
func FuzzGreeting(f *testing.F) {
	rest := strings.Repeat("x", directoryBytes+nonceBytes)
	for _, s := range []string{
		"HFRT\x01\x00\xfe\x08holdfast" + rest, "HFRT\x01\x00\x02\x01c" + rest, "HFRT\x01\x00\x01\x01c" + rest,
		"HFRT\x01\x05\x02\x01c" + rest + rest + rest + rest,
		"HFRT\x02\x00\x02\xff", "HFRT\x01\x01\x02\x03no!", "HFRT", "GET / HTTP/1.1\r\n\r\n", "",
	} {
		f.Add([]byte(s))
	}
	l := New(Config{ClusterID: "c", Node: 1, Advertise: "a", Listener: pipes{}.listen("a")})
	f.Fuzz(func(t *testing.T, b []byte) {
		conn := &saying{in: bytes.NewReader(b)}
		var refused error
		bound.Cost{Fixed: 64 << 10}.Hold(t, len(b), func() { _, refused = l.answer(conn) })
		g, err := readGreeting(bytes.NewReader(b))
		if err != nil {
			told := ""
			if errors.Is(err, errHTTP) {
				told = wrongPort
			}
			if refused == nil || conn.out.String() != told {
				t.Errorf("%q is not a greeting and was answered with %q, %v", b, &conn.out, refused)
			}
			return
		}
		if !bytes.HasPrefix(b, bytesOf(g)) {
			t.Errorf("%q was read as %+v", b, g)
		}
		ours := g.format == session.GreetingFormat && !g.refuses() && g.text == "c" && g.node.Valid() && g.node != 1
		waits := g.format == session.GreetingFormat && g.code == codeWaits // no sign of another cluster
		if refused == nil || errors.Is(refused, session.ErrWrongCluster) == (waits || ours) {
			t.Errorf("%+v: %v", g, refused) // nobody can prove a directory before the answer
		}
		answer, err := readGreeting(&conn.out)
		if err != nil || answer.node != 1 || ours != (answer.check(&Config{ClusterID: "c", Node: 2}) == nil) {
			t.Errorf("%+v was answered with %+v, %v", g, answer, err)
		}
	})
}

// FuzzMeet lets a node of the cluster send anything in a meeting: it gets at most one answer, and the layer keeps
// nothing.
func FuzzMeet(f *testing.F) {
	f.Add([]byte("\x00\x02{}"))
	f.Add([]byte("\xff\xff{}"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		asked := 0
		conn := &saying{in: bytes.NewReader(b)}
		var err error
		bound.Cost{Fixed: 128 << 10}.Hold(t, len(b), func() {
			err = serveExchange(conn, greeting{node: 2}, func(session.Node, Directory, []byte) []byte {
				asked++
				return []byte("yes")
			})
		})
		whole := len(b) >= 2 && len(b)-2 >= int(b[0])<<8+int(b[1])
		if whole != errors.Is(err, errMet) || whole != (asked == 1) {
			t.Errorf("%q: %v, asked %d times", b, err, asked)
		}
	})
}

// costOfRaft bounds the memory that bytes for Raft's transport may need: the longest announced field, and a few times
// the bytes that come.
var costOfRaft = bound.Cost{PerByte: 1 << 10, Fixed: 2 << 20}

// FuzzRaftPort lets a node of the cluster send anything to Raft after a valid greeting: no bytes make Raft's transport,
// which is not ours, panic, hang or use much more memory than they are long.
func FuzzRaftPort(f *testing.F) {
	f.Add([]byte{0, 0xdf, 0xff, 0xff, 0xff, 0xff})           // a map of 2^32 fields
	f.Add([]byte("\x00\x81\xa7Entries\xdd\x7f\xff\xff\xff")) // a list of 2^31 entries
	f.Add([]byte("\x00\x81\xa6Leader\xc6\x7f\xff\xff\xff"))  // 2^31 bytes
	f.Fuzz(func(t *testing.T, b []byte) {
		costOfRaft.Hold(t, len(b), func() {
			bubble.Test(t, func(t *testing.T) { sayToRaft(t, b) })
		})
	})
}

// TestManyRequestsAtOnce: requests that come together cost as much as requests one after another.
func TestManyRequestsAtOnce(t *testing.T) {
	for _, size := range []int{1 << 12, 1 << 15} {
		said := bytes.Repeat([]byte("\x03\x80"), size/2)
		costOfRaft.Hold(t, len(said), func() {
			bubble.Test(t, func(t *testing.T) { sayToRaft(t, said) })
		})
	}
}

// sayToRaft sends b to the transport of a node, which refuses every request.
func sayToRaft(t *testing.T, b []byte) {
	t.Helper()
	network := pipes{}
	theirs, _ := network.layer(t, "b", "c", 2)
	ours, _ := network.layer(t, "a", "c", 1)
	transport := NewChecked(NewTransport(ours, 0), Checks{Term: func() uint64 { return 7 }})
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case rpc := <-transport.Consumer():
				if rpc.Reader != nil {
					_, _ = io.Copy(io.Discard, rpc.Reader)
				}
				rpc.Respond(&raft.AppendEntriesResponse{}, errors.New("refused"))
			case <-over:
				return
			}
		}
	}()
	conn, err := theirs.Dial("a", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = conn.Write(b)
	synctest.Wait() // each request is answered before the connection is closed
	_ = conn.Close()
	synctest.Wait()
	transport.CloseStreams()
	if err := errors.Join(transport.Close(), ours.Close(), theirs.Close()); err != nil {
		t.Error(err)
	}
}

// FuzzRaftAnswer lets a node of the cluster answer Raft's request with anything.
func FuzzRaftAnswer(f *testing.F) {
	f.Add([]byte("\xa0\x82\xa4Term\x07\xa7Success\xc3"))
	f.Add([]byte("\xa0\x81\xa1x\xc9\x7f\xff\xff\xff\xff"))
	f.Add([]byte("\xdb\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		costOfRaft.Hold(t, len(b), func() {
			bubble.Test(t, func(t *testing.T) { answerRaft(t, b) })
		})
	})
}

// answerRaft answers a request of a node's transport with b.
func answerRaft(t *testing.T, b []byte) {
	t.Helper()
	network := pipes{}
	theirs, _ := network.layer(t, "b", "c", 2)
	ours, _ := network.layer(t, "a", "c", 1)
	transport := NewTransport(ours, 0).NetworkTransport
	accepted := accepting(theirs)
	over := make(chan struct{})
	go func() {
		defer close(over)
		raw := (<-accepted).(*served).Conn // as a node without a guard
		go func() { _, _ = io.Copy(io.Discard, raw) }()
		_, _ = raw.Write(b)
		_ = raw.Close()
	}()
	_, _ = send(transport, &raft.AppendEntriesRequest{Term: 7}, nil)
	shut(t, transport) // closes the connections that Raft keeps and does not read
	<-over
	closeAll(t, theirs)
}
