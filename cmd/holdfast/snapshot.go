package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"holdfast/backup"
	"holdfast/backup/verify"
	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

const (
	// saveTries is how often a save goes on after its stream was cut off, without a byte in between.
	saveTries = 10
	// saveWait is the pause before each try.
	saveWait = time.Second
	// savedEvery is how often progress is shown.
	savedEvery = time.Second
)

func (c *cli) snapshot() *cobra.Command {
	return group("snapshot", "Save and verify backups of the cluster's state",
		c.snapshotSave(), c.snapshotVerify())
}

func (c *cli) snapshotSave() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use: "save FILE", Short: "Save a backup of the cluster's state", Args: arg.One("FILE"),
		Long: `Save the state of a running cluster in a new file: sessions, marks of used ids, the tree, and what
is remembered of ended sessions. The state is that of one index, and shows everything that was
acknowledged before the command began. The cluster goes on meanwhile.

The first of --endpoints that answers streams the state from a frozen copy. When the stream is cut
off, the command goes on with the same copy, or begins again when the node has lost it. Only a
whole file that "holdfast snapshot verify" accepts gets the name FILE. The file holds no secrets of
the cluster, but all data and access lists of the tree, so that only its owner can read it.

With --local the node does not ask the leader. This works without a quorum, and the state may be
old.`,
		Example: "  holdfast snapshot save cluster.backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.target.with(func(cl *client.Client) error { return c.save(cmd.Context(), cl, args[0], local) })
		},
	}
	cmd.Flags().BoolVar(&local, "local", false, "take the state that the node has, without asking the leader")
	return cmd
}

// saving is a backup on its way into a file.
type saving struct {
	*cli
	local bool
	file  *os.File
	// id names the frozen copy at the node; nil before the first stream.
	id     []byte
	header backup.Header
	// written is how many bytes of the records are in the file.
	written uint64
	shown   time.Time
}

// save saves a backup in a file that does not exist yet.
func (c *cli) save(ctx context.Context, cl *client.Client, path string, local bool) error {
	if err := free(path); err != nil {
		return err
	}
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	defer file.Cleanup() //nolint:errcheck // a file that was renamed is gone, and another one is not wanted
	s := &saving{cli: c, local: local, file: file.File}
	if err = s.stream(ctx, cl); err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	report, err := verified(ctx, file.Name())
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("what has arrived is no whole backup: %w", err)
		}
		return fmt.Errorf("saving %s: %w", path, err)
	}
	if err = publish(file, path); err != nil {
		return err
	}
	return c.showBackup(path, &report)
}

// publish gives a whole file its name, on the disk, and replaces no other file.
func publish(file *renameio.PendingFile, path string) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	err := os.Link(file.Name(), path)
	if errors.Is(err, os.ErrExist) {
		return taken(path)
	}
	if err != nil { // some file systems have no links
		if err = free(path); err != nil {
			return err
		}
		err = file.CloseAtomicallyReplace()
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	return nil
}

// syncDir has the names in a directory survive a power cut.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// free returns an error if there is a file already.
func free(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return taken(path)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("saving %s: %w", path, err)
	default:
		return nil
	}
}

func taken(path string) error {
	return fmt.Errorf("saving %s: the file exists: give another name, or remove it first", path)
}

// stream takes the backup from the first node that has one to give. It goes on there when the stream is cut off.
func (s *saving) stream(ctx context.Context, cl *client.Client) error {
	var errs []error
	for _, endpoint := range s.target.endpoints {
		err := s.from(ctx, cl, endpoint)
		if _, disk := errors.AsType[*os.PathError](err); err == nil || ctx.Err() != nil || disk {
			return err // another node would not help
		}
		errs = append(errs, err)
	}
	return silentNodes(errs)
}

// from takes the backup from one node.
func (s *saving) from(ctx context.Context, cl *client.Client, endpoint string) error {
	s.id = nil
	for tries := 0; ; tries++ {
		before := s.written
		err := cl.TakeSnapshot(ctx, endpoint, s.request(), client.SnapshotTo{Started: s.started, Chunk: s.chunk})
		field, refused := errors.AsType[*session.FieldError](err)
		switch {
		case err == nil:
			return nil
		case refused && field.Field == "resume" && s.id != nil:
			s.out.complain("holdfast: %s has lost its copy of the state: the backup begins anew\n", endpoint)
			s.id = nil
		case !errors.Is(err, client.ErrUnreachable) || s.id == nil || ctx.Err() != nil:
			return err
		}
		if s.written > before {
			tries = 0
		}
		if tries == saveTries {
			return err
		}
		if err := pause(ctx, saveWait); err != nil {
			return err
		}
	}
}

func (s *saving) request() client.SnapshotRequest {
	if s.id == nil {
		return client.SnapshotRequest{Local: s.local}
	}
	return client.SnapshotRequest{Resume: s.id, Offset: s.written}
}

// started begins the file, unless this goes on with a stream that was cut off.
func (s *saving) started(id []byte, h backup.Header) error {
	if s.id != nil {
		return nil
	}
	s.id, s.header, s.written = id, h, 0
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return backup.WriteHeader(s.file, h)
}

func (s *saving) chunk(b []byte) error {
	if _, err := s.file.Write(b); err != nil {
		return err
	}
	if s.written += uint64(len(b)); time.Since(s.shown) >= savedEvery || s.written == s.header.Bytes {
		s.shown = time.Now()
		s.out.progress("%s of %s", words.Bytes(s.written), words.Bytes(s.header.Bytes))
		if s.written == s.header.Bytes {
			s.out.progress("")
		}
	}
	return nil
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *cli) snapshotVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify FILE", Short: "Verify a backup, and show what it holds", Args: arg.One("FILE"),
		Long: `Read a backup to its end and check everything: the checksums of the file and of every record, that
every record can be read, that parents, owners and numbers fit together, and the digest of the
state. Then show of which cluster and moment it is, and how many sessions and entries it holds. No
data of the tree is shown. The exit code is 0 for a whole backup, and 1 otherwise.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := verified(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.showBackup(args[0], &report)
		},
	}
}

// verified is [verify.File] that ends when ctx does.
func verified(ctx context.Context, path string) (verify.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return verify.Report{}, err
	}
	defer func() { _ = f.Close() }() // it is open for reading only
	info, err := f.Stat()
	if err != nil {
		return verify.Report{}, err
	}
	report, err := verify.Backup(arg.Until(ctx, f))
	report.Size = info.Size()
	switch {
	case ctx.Err() != nil: // whatever the reader made of it
		return verify.Report{}, fmt.Errorf("%s: %w", path, context.Cause(ctx))
	case err != nil:
		return verify.Report{}, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

// backupView is what a backup holds in JSON.
type backupView struct {
	File         string            `json:"file"`
	Size         int64             `json:"size"`
	ClusterID    string            `json:"cluster_id"`
	Node         session.Node      `json:"node"`
	Version      string            `json:"version"`
	TakenAt      string            `json:"taken_at"`
	Index        uint64            `json:"index"`
	Term         uint64            `json:"term"`
	Confirmed    bool              `json:"confirmed"`
	FeatureLevel uint32            `json:"feature_level"`
	Sessions     uint64            `json:"sessions"`
	Attachment   uint64            `json:"attachment"`
	Ended        uint64            `json:"sessions_ended"`
	Certificates uint64            `json:"certificates"`
	Writers      int               `json:"writers"`
	Wills        int               `json:"wills"`
	Entries      uint64            `json:"tree_entries"`
	Kinds        map[string]uint64 `json:"tree_kinds,omitempty"`
	Bytes        uint64            `json:"tree_bytes"`
	StateDigest  string            `json:"state_digest"`
	SHA256       string            `json:"sha256"`
}

func viewBackup(path string, r *verify.Report) backupView {
	v := backupView{
		File: path, Size: r.Size, ClusterID: r.Cluster, Node: r.Node, Version: r.Version, TakenAt: words.Moment(r.Taken),
		Index: r.Header.Index, Term: r.Header.Term, Confirmed: r.Confirmed, FeatureLevel: r.FeatureLevel,
		Sessions: r.Header.Sessions, Attachment: r.Attachment, Ended: r.Ended, Certificates: r.Header.Certificates,
		Writers: r.Writers, Wills: r.Wills, Entries: r.Header.Entries, Bytes: r.Contents.Bytes,
		StateDigest: hex.EncodeToString(r.StateDigest[:]), SHA256: hex.EncodeToString(r.SHA256[:]),
	}
	if len(r.Kinds) > 0 {
		v.Kinds = map[string]uint64{}
		for kind, count := range r.Kinds {
			v.Kinds[kind.String()] = count
		}
	}
	return v
}

func (c *cli) showBackup(path string, r *verify.Report) error {
	v := viewBackup(path, r)
	return c.out.print(v, func() string {
		shows := "all that was acknowledged before it was asked for"
		if !v.Confirmed {
			shows = "what node " + number(v.Node) + " had, which may be old"
		}
		rows := [][]string{
			{"file", v.File},
			{"size", words.Bytes(uint64(v.Size))},
			{"cluster", v.ClusterID},
			{"taken at", v.TakenAt},
			{"by node", number(v.Node)},
			{"release", v.Version},
			{"shows", shows},
			{"index", number(v.Index)},
			{"term", number(v.Term)},
			{"feature level", number(uint64(v.FeatureLevel))},
			{"sessions", number(v.Sessions)},
			{"ended sessions", number(v.Ended)},
			{"wills", number(uint64(v.Wills))},
			{"entries", number(v.Entries)},
		}
		for kind := tree.Persistent; kind <= tree.Lingering; kind++ {
			if count := v.Kinds[kind.String()]; count > 0 {
				rows = append(rows, []string{"  " + kind.String(), number(count)})
			}
		}
		return properties(append(rows, []string{"data", words.Bytes(v.Bytes)}, []string{"state digest", v.StateDigest},
			[]string{"sha256", v.SHA256}))
	})
}
