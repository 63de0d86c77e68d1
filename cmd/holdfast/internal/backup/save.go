package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"holdfast/backup"
	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

const (
	// saveTries bounds the attempts to continue a stream that broke, without a byte in between.
	saveTries = 10
	// saveWait is the pause before each attempt.
	saveWait = time.Second
	// saveProgress is the time between two reports of progress.
	saveProgress = time.Second
)

// saveFlags are the flags of "snapshot save".
type saveFlags struct{ local bool }

func newSave(env *cli.Env) *cobra.Command {
	var f saveFlags
	cmd := &cobra.Command{
		Use: "save FILE", Short: "Save a backup of the cluster's state", Args: arg.One("FILE"),
		Long: `Save the state of a running cluster in a new file: sessions, marks of used ids, the tree, and death
certificates. The state is a snapshot at one log index, with all writes that were acknowledged
before the command began. The cluster continues to work.

The first of --endpoints that answers streams the state. When the stream breaks, the command
continues it, or starts again when the node has lost its copy of the state. FILE appears only when
it is complete and passes "holdfast snapshot verify". The file has no secrets of the cluster, but
all data and access lists of the tree, so only its owner can read it.

With --local the node does not ask the leader. This works without a quorum, and the state may be
stale.`,
		Example: "  holdfast snapshot save cluster.backup",
		RunE:    cli.Run(env, &f, runSave),
	}
	cmd.Flags().BoolVar(&f.local, "local", false, "save the node's own state, without asking the leader")
	return cmd
}

func runSave(ctx context.Context, env *cli.Env, f *saveFlags, args []string) error {
	return env.Cluster.Connect(func(cl *client.Client) error { return save(ctx, env, cl, args[0], f.local) })
}

// saving is one run of "snapshot save".
type saving struct {
	env   *cli.Env
	local bool
	file  *os.File
	// id names the node's copy of the state; nil before the first stream.
	id     []byte
	header backup.Header
	// written counts the bytes of the records in the file.
	written uint64
	shown   time.Time
}

// save saves a backup in a file that does not exist yet.
func save(ctx context.Context, env *cli.Env, cl *client.Client, path string, local bool) error {
	if err := checkFree(path); err != nil {
		return err
	}
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	defer file.Cleanup() //nolint:errcheck // without effect on a file that was renamed
	s := &saving{env: env, local: local, file: file.File}
	if err = s.stream(ctx, cl); err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	report, err := verified(ctx, file.Name())
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("the received backup is invalid: %w", err)
		}
		return fmt.Errorf("saving %s: %w", path, err)
	}
	if err = publish(file, path); err != nil {
		return err
	}
	return printBackup(env, path, &report)
}

// publish gives the complete file its name, durably, and never replaces another file.
func publish(file *renameio.PendingFile, path string) error {
	if err := file.Sync(); err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	err := os.Link(file.Name(), path)
	if errors.Is(err, os.ErrExist) {
		return existsError(path)
	}
	if err != nil { // some file systems have no links
		if err = checkFree(path); err != nil {
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

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// checkFree returns an error if the file exists.
func checkFree(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return existsError(path)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("saving %s: %w", path, err)
	default:
		return nil
	}
}

func existsError(path string) error {
	return fmt.Errorf("saving %s: the file exists: give another name, or remove it first", path)
}

// stream receives the backup from the first node that answers.
func (s *saving) stream(ctx context.Context, cl *client.Client) error {
	var errs []error
	for _, endpoint := range s.env.Cluster.Endpoints {
		err := s.receive(ctx, cl, endpoint)
		if _, disk := errors.AsType[*os.PathError](err); err == nil || ctx.Err() != nil || disk {
			return err // another node cannot help
		}
		errs = append(errs, err)
	}
	return cli.JoinNodes(errs)
}

// receive receives the backup from one node, and continues a stream that broke.
func (s *saving) receive(ctx context.Context, cl *client.Client, endpoint string) error {
	s.id = nil
	for tries := 0; ; tries++ {
		before := s.written
		err := cl.TakeSnapshot(ctx, endpoint, s.request(), client.SnapshotTo{Started: s.started, Chunk: s.chunk})
		field, refused := errors.AsType[*session.FieldError](err)
		switch {
		case err == nil:
			return nil
		case refused && field.Field == "resume" && s.id != nil:
			s.env.Out.Messagef("holdfast: %s has lost its copy of the state: the backup starts again\n", endpoint)
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

// started starts the file, unless the stream continues a stream that broke.
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
	if s.written += uint64(len(b)); time.Since(s.shown) >= saveProgress || s.written == s.header.Bytes {
		s.shown = time.Now()
		s.env.Out.Progressf("%s of %s", words.Bytes(s.written), words.Bytes(s.header.Bytes))
		if s.written == s.header.Bytes {
			s.env.Out.Progressf("")
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
