package raftnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
	"holdfast/transport/internal/porttest"
)

// former is the stream layer of a release that speaks only version 2 of the handshake. It refuses any other version,
// and leaves all later bytes to Raft.
type former struct {
	net.Listener
	dial    func(ctx context.Context, address string) (net.Conn, error)
	refused *int
}

func (f former) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := f.dial(ctx, string(to))
	if err != nil {
		return nil, err
	}
	theirs, err := f.greet(conn, codeHello)
	if err == nil && (theirs.version != 2 || theirs.code != codeHello) {
		err = errors.New(theirs.text)
	}
	return conn, err
}

// greet sends a greeting and reads the other side's.
func (former) greet(conn net.Conn, code byte) (greeting, error) {
	if err := (greeting{version: 2, code: code, node: 2, text: "c"}).write(conn); err != nil {
		return greeting{}, err
	}
	return readGreeting(conn)
}

func (f former) Accept() (net.Conn, error) {
	for {
		conn, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		theirs, err := readGreeting(conn)
		answer := greeting{version: 2, node: 2, text: "c"}
		if theirs.version != 2 {
			*f.refused++
			answer.code, answer.text = codeVers, "run the same release"
		}
		if err = errors.Join(err, answer.write(conn)); err != nil {
			return nil, err
		}
		switch {
		case theirs.version != 2:
			_ = conn.Close()
		case theirs.code == codeMeet:
			_, err = readFrame(conn)
			_ = errors.Join(err, writeFrame(conn, []byte("met")), conn.Close())
		default:
			return conn, nil
		}
	}
}

// TestNodesOfTheReleaseBefore: nodes of two releases speak to each other while a cluster is upgraded, whichever dials.
// The older one knows no reports: requests to it have Raft's deadline, and its own slow requests are answered without
// reports.
func TestNodesOfTheReleaseBefore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := simnet.New(func(string, string) time.Duration { return time.Millisecond })
		listen := func(name string) (*simnet.Host, net.Listener) {
			host := network.Host(name)
			l, err := host.Listen(":1")
			if err != nil {
				t.Fatal(err)
			}
			return host, l
		}
		host, l := listen("a")
		log := &porttest.LogBuffer{}
		layer := New(Config{
			ClusterID: "c", Node: 1, Advertise: "a", Listener: l,
			Logger: hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Debug}),
			Dial:   func(ctx context.Context, address string) (net.Conn, error) { return host.Dial(ctx, address+":1") },
		})
		ours := NewTransport(layer, 0)
		host, l = listen("b")
		refused := 0
		old := &Transport{NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			MaxPool: 3, MaxRPCsInFlight: 1, Timeout: defaultTimeout, Logger: hclog.NewNullLogger(),
			Stream: former{l, func(ctx context.Context, address string) (net.Conn, error) {
				return host.Dial(ctx, address+":1")
			}, &refused},
		})}
		answered := make(chan struct{})
		answer := func(tr *Transport, after time.Duration) {
			rpc := <-tr.Consumer()
			var err error
			if rpc.Reader != nil {
				_, err = io.Copy(io.Discard, rpc.Reader)
			}
			time.Sleep(after)
			rpc.Respond(answerTo(rpc.Command), err)
			answered <- struct{}{}
		}
		asks := func(from, to *Transport, at raft.ServerAddress, after time.Duration) (time.Duration, error) {
			go answer(to, after)
			begun := time.Now()
			err := from.AppendEntries("x", at, batch(1000), &raft.AppendEntriesResponse{})
			took := time.Since(begun)
			<-answered
			return took, err
		}
		met, err := layer.Meet(t.Context(), "b", []byte("hello"))
		if err != nil || met.Node != 2 || !bytes.Equal(met.Answer, []byte("met")) {
			t.Errorf("met %+v, %v", met, err)
		}
		for _, after := range []time.Duration{0, time.Second} { // a second is long enough for reports
			if _, err := asks(ours, old, "b", after); err != nil {
				t.Errorf("a request to the older node, answered after %v: %v", after, err)
			}
			if _, err := asks(old, ours, "a", after); err != nil {
				t.Errorf("a request of the older node, answered after %v: %v", after, err)
			}
		}
		// No reports come, so the request fails at Raft's deadline.
		if took, err := asks(ours, old, "b", 10*time.Second); err == nil || took != defaultTimeout {
			t.Errorf("a request that was not answered in time ended after %v: %v", took, err)
		}
		// Raft gives a snapshot a longer deadline by its size. Restoring it needs the time.
		const size = 9_000_000
		go answer(old, 10*time.Second)
		request := &raft.InstallSnapshotRequest{SnapshotVersion: 1, Term: 7, Size: size}
		if err := ours.InstallSnapshot("x", "b", request, &raft.InstallSnapshotResponse{},
			bytes.NewReader(make([]byte, size))); err != nil {
			t.Errorf("a snapshot for the older node: %v", err)
		}
		<-answered
		if text := log.String(); refused == 0 || strings.Contains(text, "[WARN]") {
			t.Errorf("%d greetings were refused, and the newer node's log says\n%s", refused, text)
		}
		shutAll(t, ours, old)
		time.Sleep(time.Second) // the older node notices that its connections have ended
	})
}

// A node is greeted in the previous version only once, and after no other refusal.
func TestOtherVersionsAreRefused(t *testing.T) {
	for name, answer := range map[string]greeting{
		"a version to come":       {version: 4, code: codeVers, node: 2, text: "run the same release"},
		"another cluster":         {version: silentVersion, code: codeOther, node: 2, text: "other"},
		"the version before, and": {version: silentVersion, code: codeVers, node: 2, text: "run the same release"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				network := pipes{}
				a, log := network.layer(t, "a", "c", 1)
				l := network.listen("b")
				said := make(chan greeting, 3)
				go func() {
					for conn := range l.conns {
						theirs, _ := readGreeting(conn)
						said <- theirs
						_ = errors.Join(answer.write(conn), conn.Close())
					}
				}()
				if _, err := a.Dial("b", time.Second); !errors.Is(err, session.ErrWrongCluster) {
					t.Errorf("Dial: %v", err)
				}
				close(l.conns)
				want := 1
				if answer.code == codeVers && answer.version == silentVersion {
					want = 2
				}
				if len(said) != want || (<-said).version != version || want == 2 && (<-said).version != silentVersion {
					t.Errorf("greeted another number of times than %d, or in other versions", want)
				}
				if got := strings.Count(log.String(), "raft peer refused"); got != 1 {
					t.Errorf("the reason is logged %d times, want once", got)
				}
				closeAll(t, a)
			})
		})
	}
}
