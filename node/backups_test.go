package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"holdfast/backup"
	"holdfast/backup/verify"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// taken is what a client got of a backup.
type taken struct {
	id     []byte
	header backup.Header
	bytes.Buffer
}

// operators returns a client of a node's ClusterService.
func (c *testCluster) operators(n *testNode) holdfastv1.ClusterServiceClient {
	c.t.Helper()
	conn, err := dial.Client(n.name+":7400", dial.Options{Dial: c.Host("client").Dial})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return holdfastv1.NewClusterServiceClient(conn)
}

// take reads a stream to its end, or at least so many bytes; most 0 is all.
func (b *taken) take(ctx context.Context, from holdfastv1.ClusterServiceClient, req *holdfastv1.TakeSnapshotRequest,
	most int,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := from.TakeSnapshot(ctx, req)
	if err != nil {
		return err
	}
	for most == 0 || b.Len() < most {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wire.Domain(err)
		}
		if s := m.GetStarted(); s != nil {
			b.id = s.GetId()
			if b.header, err = backup.HeaderFrom(s.GetHeader()); err != nil {
				return err
			}
			continue
		}
		if m.GetChunk().GetOffset() != uint64(b.Len()) {
			return errors.New("a chunk is at the wrong offset")
		}
		b.Write(m.GetChunk().GetData())
	}
	return nil
}

// report verifies what was taken.
func (b *taken) report() (verify.Report, error) {
	var file bytes.Buffer
	if err := backup.WriteHeader(&file, b.header); err != nil {
		return verify.Report{}, err
	}
	file.Write(b.Bytes())
	return verify.Backup(&file)
}

// fill opens sessions with labels, so that a backup has several chunks.
func (c *testCluster) fill(n *testNode, sessions int) {
	c.t.Helper()
	conn, err := n.server.Connect(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	labels := session.Labels{{Key: "a", Value: string(bytes.Repeat([]byte("x"), 240))}}
	for range sessions {
		c.opens++
		if _, err := conn.Open(c.t.Context(), session.OpenRequest{
			RequestID: session.RequestID{c.opens, 1}, Spec: session.Spec{Timeout: 40 * time.Second, Labels: labels},
			MS: session.MS(time.Now()),
		}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Every node streams a backup that shows all that was acknowledged before, also one that was cut off from the leader's
// newest entries until then. A stream that was cut off goes on with the same state.
func TestBackupOfARunningCluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.fill(leads, 250)
		for _, n := range c.nodes {
			granted := c.mustOpen(leads, 5*time.Second)
			var b taken
			if err := b.take(t.Context(), c.operators(n), &holdfastv1.TakeSnapshotRequest{}, 0); err != nil {
				t.Fatalf("%s: %v", n.name, err)
			}
			report, err := b.report()
			if err != nil || !report.Confirmed || report.Header.Index < granted.Session.OpenedIndex ||
				report.Node != n.cfg.Node || report.Cluster != n.cfg.ClusterID {
				t.Errorf("%s: %+v, %v; want index %d or more", n.name, report, err, granted.Session.OpenedIndex)
			}
		}
		from := c.operators(c.others(leads)[0])
		var b taken
		if err := b.take(t.Context(), from, &holdfastv1.TakeSnapshotRequest{}, 1); err != nil {
			t.Fatal(err)
		}
		if whole := uint64(b.Len()); whole == b.header.Bytes {
			t.Fatalf("the backup has one chunk of %d bytes: there is nothing to resume", whole)
		}
		c.mustOpen(leads, 5*time.Second) // the state goes on, and the copy does not
		time.Sleep(backupKept - 10*time.Second)
		if err := b.take(t.Context(), from, &holdfastv1.TakeSnapshotRequest{
			Resume: b.id, Offset: uint64(b.Len()),
		}, 0); err != nil {
			t.Fatal(err)
		}
		if report, err := b.report(); err != nil {
			t.Errorf("resumed: %+v, %v", report, err)
		}
		time.Sleep(backupKept + time.Second)
		err := b.take(t.Context(), from, &holdfastv1.TakeSnapshotRequest{Resume: b.id}, 0)
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "resume" {
			t.Errorf("resumed after the copy was dropped: %v", err)
		}
		for _, n := range c.nodes {
			if left := len(n.backups.copies); left != 0 {
				t.Errorf("%s keeps %d copies", n.name, left)
			}
		}
	})
}

// A node without a quorum gives no confirmed backup, and says so. It gives its own state to those who ask for that.
func TestBackupWithoutAQuorum(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		c.mustOpen(leads, 5*time.Second)
		c.agree(5 * time.Second)
		alone := c.others(leads)[0]
		c.cut(alone, c.others(alone)...)
		c.eventually("it has no leader", 10*time.Second, func() bool {
			return alone.server.State().Mode != session.ModeReadWrite
		})
		var b taken
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := b.take(ctx, c.operators(alone), &holdfastv1.TakeSnapshotRequest{}, 0); err == nil {
			t.Error("a node that is cut off gave a confirmed backup")
		}
		if err := b.take(t.Context(), c.operators(alone), &holdfastv1.TakeSnapshotRequest{Local: true}, 0); err != nil {
			t.Fatal(err)
		}
		if report, err := b.report(); err != nil || report.Confirmed || report.Header.Sessions != 1 {
			t.Errorf("its own: %+v, %v", report, err)
		}
	})
}

// Backups are bounded: two at a time, and an hour each. A copy that nobody reads makes room for another one.
func TestBackupsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		n := c.leader(within)
		c.mustOpen(n, 5*time.Second)
		b := n.backups
		first, err := b.Freeze(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.Freeze(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		var x taken
		err = x.take(t.Context(), c.operators(n), &holdfastv1.TakeSnapshotRequest{}, 0)
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "max_snapshots" {
			t.Errorf("a third backup: %v", err)
		}
		first.Release()
		if err = x.take(t.Context(), c.operators(n), &holdfastv1.TakeSnapshotRequest{}, 0); err != nil {
			t.Errorf("with one that nobody reads: %v", err)
		}
		if _, err = b.Again(first.ID()); err == nil {
			t.Error("the copy that nobody read is still there")
		}
		time.Sleep(backupAge + time.Second)
		err = second.Write(io.Discard)
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "snapshot_age" {
			t.Errorf("an old copy: %v", err)
		}
		second.Release()
		for _, bad := range []*holdfastv1.TakeSnapshotRequest{
			{Offset: 1}, {Resume: []byte("short")}, {Resume: x.id, Local: true}, {Resume: x.id, Offset: x.header.Bytes + 1},
		} {
			err := x.take(t.Context(), c.operators(n), bad, 0)
			if _, ok := errors.AsType[*session.FieldError](err); !ok {
				t.Errorf("%v: %v", bad, err)
			}
		}
	})
}

// However slowly a copy is read, it does not live for longer than backupAge.
func TestACopyGetsTooOld(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &aging{io.Discard, time.Now()}
		time.Sleep(backupAge)
		if _, err := w.Write([]byte("part")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		_, err := w.Write([]byte("part"))
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "snapshot_age" {
			t.Errorf("%v, want the limit snapshot_age", err)
		}
	})
}
