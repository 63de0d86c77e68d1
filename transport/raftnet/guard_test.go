package raftnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
)

// requests returns one request of each kind that Raft sends, as large as they get.
func requests() []any {
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("1"), Addr: []byte("a#0102030405060708")}
	at := time.Date(2026, 11, 22, 8, 0, 0, 123, time.UTC)
	entries := []*raft.Log{
		{Index: 1 << 40, Term: 7, Type: raft.LogCommand, Data: bytes.Repeat([]byte{0xc9}, MaxField/2), AppendedAt: at},
		{Index: 1<<40 + 1, Term: 7, Type: raft.LogConfiguration, Data: []byte("servers"), Extensions: []byte("x")},
		{Index: 1<<40 + 2, Term: 7, Type: raft.LogNoop},
	}
	for i := range uint64(500) {
		entries = append(entries, &raft.Log{Index: 1<<40 + 3 + i, Term: 7, Data: make([]byte, i), AppendedAt: at})
	}
	return []any{
		&raft.AppendEntriesRequest{
			RPCHeader: header, Term: 7, PrevLogEntry: 1, PrevLogTerm: 300, Entries: entries,
			LeaderCommitIndex: 70_000,
		},
		&raft.AppendEntriesRequest{RPCHeader: header, Term: 7}, // a heartbeat
		&raft.RequestVoteRequest{
			RPCHeader: header, Term: 1<<63 + 1, LastLogIndex: 5_000_000_000,
			LeadershipTransfer: true,
		},
		&raft.RequestPreVoteRequest{RPCHeader: header, Term: 8, LastLogIndex: 200},
		&raft.TimeoutNowRequest{RPCHeader: header},
	}
}

// send sends request, and after it data if the request announces a snapshot.
func send(tr *raft.NetworkTransport, request any, data []byte) (answer any, err error) {
	const id, target = "2", "b"
	switch r := request.(type) {
	case *raft.AppendEntriesRequest:
		answer = &raft.AppendEntriesResponse{}
		err = tr.AppendEntries(id, target, r, answer.(*raft.AppendEntriesResponse))
	case *raft.RequestVoteRequest:
		answer = &raft.RequestVoteResponse{}
		err = tr.RequestVote(id, target, r, answer.(*raft.RequestVoteResponse))
	case *raft.RequestPreVoteRequest:
		answer = &raft.RequestPreVoteResponse{}
		err = tr.RequestPreVote(id, target, r, answer.(*raft.RequestPreVoteResponse))
	case *raft.TimeoutNowRequest:
		answer = &raft.TimeoutNowResponse{}
		err = tr.TimeoutNow(id, target, r, answer.(*raft.TimeoutNowResponse))
	case *raft.InstallSnapshotRequest:
		answer = &raft.InstallSnapshotResponse{}
		err = tr.InstallSnapshot(id, target, r, answer.(*raft.InstallSnapshotResponse), bytes.NewReader(data))
	}
	return answer, err
}

// answerTo returns a response to request, with fields that identify it.
func answerTo(request any) any {
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("2"), Addr: []byte("b")}
	switch r := request.(type) {
	case *raft.AppendEntriesRequest:
		return &raft.AppendEntriesResponse{
			RPCHeader: header, Term: r.Term, LastLog: 1 << 41, Success: true,
			NoRetryBackoff: true,
		}
	case *raft.RequestVoteRequest:
		return &raft.RequestVoteResponse{RPCHeader: header, Term: r.Term, Peers: []byte("p"), Granted: true}
	case *raft.RequestPreVoteRequest:
		return &raft.RequestPreVoteResponse{RPCHeader: header, Term: r.Term, Granted: true}
	case *raft.TimeoutNowRequest:
		return &raft.TimeoutNowResponse{RPCHeader: header}
	case *raft.InstallSnapshotRequest:
		return &raft.InstallSnapshotResponse{RPCHeader: header, Term: r.Term, Success: true}
	}
	return nil
}

// TestGuardPassesMessagesUnchanged: every request and answer arrives as it was sent, with snapshots of any size.
func TestGuardPassesMessagesUnchanged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := pipes{}
		a, _ := network.layer(t, "a", "c", 1)
		b, log := network.layer(t, "b", "c", 2)
		ta, tb := NewTransport(a, time.Minute).NetworkTransport, NewTransport(b, time.Minute).NetworkTransport
		var gotRequest any
		var gotData []byte
		over := make(chan struct{})
		go func() {
			defer close(over)
			for rpc := range tb.Consumer() {
				gotRequest, gotData = rpc.Command, nil
				if rpc.Reader != nil {
					gotData, _ = io.ReadAll(rpc.Reader)
				}
				if r, last := rpc.Command.(*raft.RequestVoteRequest); last && r.Term == 0 {
					rpc.Respond(nil, errors.New("refused, at length: "+strings.Repeat("!", 1<<16)))
					return
				}
				rpc.Respond(answerTo(rpc.Command), nil)
			}
		}()
		exchange := func(request any, data []byte) {
			t.Helper()
			answer, err := send(ta, request, data)
			if err != nil || !reflect.DeepEqual(answer, answerTo(request)) {
				t.Errorf("%T was answered with %+v, %v", request, answer, err)
			}
			if !reflect.DeepEqual(gotRequest, request) || !bytes.Equal(gotData, data) {
				t.Errorf("%T arrived as %+v with %d bytes of %d", request, gotRequest, len(gotData), len(data))
			}
		}
		sizes := []int{0, 1, 127, 128, 255, 256, 65_535, 65_536, 262_143, 262_144, 1 << 20}
		for _, size := range sizes {
			data := bytes.Repeat([]byte{typeInstallSnapshot, 0x81, 0xa4, 'S', 'i', 'z', 'e', 0xc1}, size/8+1)[:size]
			exchange(&raft.InstallSnapshotRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("1"), Addr: []byte("a")}, SnapshotVersion: 1,
				Term:         7,
				LastLogIndex: 9, LastLogTerm: 6, Configuration: make([]byte, 30_000), ConfigurationIndex: 3,
				Size: int64(size),
			}, data)
			for _, request := range requests() {
				exchange(request, nil)
			}
		}
		if _, err := send(ta, &raft.RequestVoteRequest{}, nil); err == nil ||
			!strings.HasPrefix(err.Error(), "refused, at length: !") {
			t.Errorf("a request that is refused: %.40v", err)
		}
		<-over
		if n := strings.Count(log.String(), "accepted connection"); n != 1+len(sizes) {
			t.Errorf("%d connections were used, want one for each snapshot and one for all other requests:\n%s", n, log)
		}
		shut(t, ta, tb)
	})
}

func shut(t *testing.T, transports ...*raft.NetworkTransport) {
	t.Helper()
	for _, tr := range transports {
		tr.CloseStreams()
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestASnapshotIsReadOrTheConnectionEnds: Raft refuses a snapshot's request of an unknown version without reading the
// snapshot, and the snapshot's bytes are then not read as requests. After a snapshot that is read, the next request
// comes.
func TestASnapshotIsReadOrTheConnectionEnds(t *testing.T) {
	const vote = "\x01\x81\xa4Term\x07"
	for name, tt := range map[string]struct {
		read int64
		next bool
	}{
		"not read":  {0, false},
		"all of it": {int64(2 * len(vote)), true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				network := pipes{}
				a, _ := network.layer(t, "a", "c", 1)
				b, log := network.layer(t, "b", "c", 2)
				tb := NewTransport(b, time.Minute).NetworkTransport
				conn, err := a.Dial("b", time.Second)
				if err != nil {
					t.Fatal(err)
				}
				go func() { // all at once: each request is answered before the next is scanned
					_, _ = conn.Write(
						[]byte(vote + "\x02\x82\xafProtocolVersion\x63\xa4Size\x10" + vote + vote +
							"\x01\x81\xa4Term\x08"),
					)
				}()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				first := <-tb.Consumer()
				if r, ok := first.Command.(*raft.RequestVoteRequest); !ok || r.Term != 7 {
					t.Fatalf("the first request is %+v", first.Command)
				}
				first.Respond(&raft.RequestVoteResponse{}, nil)
				second := <-tb.Consumer()
				if r, ok := second.Command.(*raft.InstallSnapshotRequest); !ok || r.Size != int64(2*len(vote)) {
					t.Fatalf("the second request is %+v", second.Command)
				}
				if n, err := io.CopyN(io.Discard, second.Reader, tt.read); n != tt.read {
					t.Errorf("%d bytes of the snapshot, %v", n, err)
				}
				second.Respond(nil, errors.New("unsupported protocol version"))
				synctest.Wait()
				var third any
				select {
				case rpc := <-tb.Consumer():
					third = rpc.Command
					rpc.Respond(&raft.RequestVoteResponse{}, nil)
				default:
				}
				if r, ok := third.(*raft.RequestVoteRequest); ok != tt.next || ok && r.Term != 8 {
					t.Errorf("the third request is %+v", third)
				}
				if strings.Contains(log.String(), errUnread.Error()) == tt.next {
					t.Errorf("the log says\n%s", log)
				}
				shut(t, tb)
				closeAll(t, a)
			})
		})
	}
}

// TestGuardReadsUpToTheEndOfEachRequest: a read ends at the end of a request or a snapshot, however much has come at
// once and however little is asked for. After a refusal nothing more is given.
func TestGuardReadsUpToTheEndOfEachRequest(t *testing.T) {
	said := []string{"\x01\x81\xa4Term\x07", "\x02\x81\xa4Size\x05", "12345", "\x02\x81\xa4Term\x07", "\x01\x80"}
	for _, rooms := range [][]int{{1}, {3}, {7}, {1000}, {1000, 20, 3}} {
		reads := 0
		g := &scannedConn{
			Conn: &saying{in: strings.NewReader(strings.Join(said, "") + "\x07\x80")}, scan: scanner{requests: true},
		}
		for _, want := range said {
			var got string
			for len(got) < len(want) {
				b := make([]byte, rooms[reads%len(rooms)])
				reads++
				n, err := g.Read(b)
				if err != nil || n == 0 {
					t.Fatalf("by %d: %d bytes after %q, %v; of %q", rooms, n, got, err, want)
				}
				got += string(b[:n])
			}
			if got != want {
				t.Errorf("by %d: got %q, want %q", rooms, got, want)
			}
		}
		for range 3 {
			var refused *malformed
			if n, err := g.Read(make([]byte, 1)); n != 0 || !errors.As(err, &refused) {
				t.Errorf("by %d: %d bytes after the refusal, %v", rooms, n, err)
			}
		}
	}
}

// TestBytesThatComeWithAnError: bytes that come together with the end of a connection are given before the end.
func TestBytesThatComeWithAnError(t *testing.T) {
	const said = "\x02\x81\xa4Size\x05" + "12345" + "\x01\x80"
	g := &scannedConn{Conn: &saying{in: iotest.DataErrReader(strings.NewReader(said))}, scan: scanner{requests: true}}
	if got, err := io.ReadAll(g); string(got) != said || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// BenchmarkGuard scans one request with 503 entries, 690 KB in all, through Raft's buffer.
func BenchmarkGuard(b *testing.B) {
	said := saidTo(b, requests()[0])
	b.SetBytes(int64(len(said)))
	b.ReportAllocs()
	s := scanner{requests: true}
	for b.Loop() {
		if _, err := passAll(&s, said, 256<<10); err != nil {
			b.Fatal(err)
		}
	}
}

// saidTo returns what a transport writes for request.
func saidTo(b *testing.B, request any) []byte {
	b.Helper()
	conn := &saying{in: strings.NewReader("")}
	l := New(Config{ClusterID: "c", Node: 1, Advertise: "a", Listener: pipes{}.listen("a")})
	tr := raft.NewNetworkTransportWithLogger(only{l, conn}, 1, time.Minute, hclog.NewNullLogger())
	b.Cleanup(func() { _ = tr.Close() })
	if _, err := send(tr, request, nil); !errors.Is(err, io.EOF) {
		b.Fatal(err)
	}
	return conn.out.Bytes()
}

// only is a stream layer with one connection.
type only struct {
	*Layer
	conn net.Conn
}

func (o only) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) { return o.conn, nil }
