//go:build e2e

package disk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"holdfast/node/storage/segments"
	"holdfast/test/disk/faultfs"
	"holdfast/test/disk/simdisk"
	"holdfast/test/timeout"
)

// writerVar and readerVar make the test's binary write to a bbolt file or to a log, or inspect one: see TestMain. A log
// is a folder, and the path of a folder has no suffix.
const (
	writerVar = "HOLDFAST_DISK_TEST_WRITES_TO"
	readerVar = "HOLDFAST_DISK_TEST_READS"
)

// isLog reports whether a path is a log's.
func isLog(path string) bool { return filepath.Ext(path) == "" }

// openLog opens the log and the bbolt file with its list of segments in a folder.
func openLog(path string) (*segments.Log, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	stable, err := raftboltdb.New(raftboltdb.Options{
		Path:        filepath.Join(path, "raft.db"),
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second},
	})
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{path, filepath.Dir(path)} {
		dir, err := os.Open(folder)
		if err == nil {
			err = errors.Join(dir.Sync(), dir.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	return segments.Open(segments.Options{
		Folder: filepath.Join(path, "log"), Owner: 1, Stable: stable, Logger: hclog.NewNullLogger(), Size: 32 << 10,
	})
}

// logWriter appends one batch of entries after the other, deletes old ones, and prints the number of the newest entry
// that is on disk.
func logWriter(path string, acknowledged io.Writer) error {
	log, err := openLog(path)
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	for err == nil {
		var batch []*raft.Log
		for range 1 + last%4 {
			last++
			batch = append(batch, &raft.Log{Index: last, Term: 1, Data: contentOf(last)})
		}
		if err = log.StoreLogs(batch); err != nil {
			break
		}
		if _, err = fmt.Fprintln(acknowledged, last); err != nil {
			break
		}
		if first, firstErr := log.FirstIndex(); firstErr != nil || last-first > 300 {
			err = errors.Join(firstErr, log.DeleteRange(first, last-200))
		}
	}
	return err
}

// contentOf returns the content of an entry.
func contentOf(index uint64) []byte { return bytes.Repeat([]byte{byte(index)}, int(100+index%300)) }

// inspectLog checks all entries of a log that no process writes to, and prints the number of the newest one.
func inspectLog(path string, to io.Writer) error {
	log, err := openLog(path)
	if err != nil {
		return err
	}
	first, err := log.FirstIndex()
	last, lastErr := log.LastIndex()
	if err = errors.Join(err, lastErr); err != nil {
		return err
	}
	for index := first; index <= last && index > 0; index++ {
		var entry raft.Log
		if err = log.GetLog(index, &entry); err != nil || !bytes.Equal(entry.Data, contentOf(index)) {
			return fmt.Errorf("entry %d: %d bytes, %w", index, len(entry.Data), err)
		}
	}
	_, err = fmt.Fprint(to, last)
	return err
}

// writer commits one transaction after the other, and prints the number of each committed one.
func writer(file string, acknowledged io.Writer) error {
	if isLog(file) {
		return logWriter(file, acknowledged)
	}
	db, err := bbolt.Open(file, 0o600,
		&bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: time.Second})
	if err != nil {
		return err
	}
	for {
		var n uint64
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			n, err = b.NextSequence()
			if err != nil {
				return err
			}
			return b.Put(binary.BigEndian.AppendUint64(nil, n), make([]byte, 100+n%300))
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(acknowledged, n); err != nil {
			return err
		}
	}
}

// writeUntilCut lets a process write until its disk loses power. It returns the last transaction that the process
// reported as committed.
func writeUntilCut(d *device, file string, when faultfs.Freezing, how faultfs.Cutting) (uint64, simdisk.Loss, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), writerVar+"="+file)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, simdisk.Loss{}, err
	}
	if err = start(cmd); err != nil {
		return 0, simdisk.Loss{}, err
	}
	var last uint64
	read := make(chan error, 1)
	go func() {
		var bad error
		for lines := bufio.NewScanner(stdout); lines.Scan() && bad == nil; {
			_, bad = fmt.Sscan(lines.Text(), &last)
		}
		read <- bad
	}()
	loss, err := d.powerCut(when, how, cmd.Process.Kill, func() error {
		bad := <-read
		if end := cmd.Wait(); bad == nil && (end == nil || !strings.Contains(end.Error(), "killed")) {
			bad = fmt.Errorf("the writer ended before it was killed: %w", end)
		}
		return bad
	})
	return last, loss, err
}

// inspect opens a bbolt file that no process writes to, checks it, and prints the newest transaction of its writer.
// bbolt panics in goroutines of its own on a corrupt file, so inspect runs in a process of its own: see sound.
func inspect(file string, to io.Writer) error {
	if _, err := os.Stat(file); err != nil {
		return err
	}
	if isLog(file) {
		return inspectLog(file, to)
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		newest := uint64(0)
		if b := tx.Bucket([]byte("b")); b != nil {
			newest = b.Sequence()
			if keys := b.Stats().KeyN; keys != int(newest) {
				return fmt.Errorf("transaction %d is the newest, and there are %d", newest, keys)
			}
		}
		_, err := fmt.Fprint(to, newest)
		return err
	})
}

// sound returns the newest transaction in a bbolt file, or what is wrong with the file. It must get a copy: bbolt reads
// page by page, and each page would be a request to the disk.
func sound(file string) (newest uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), readerVar+"="+file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		line, _, _ := strings.Cut(stderr.String(), "\n")
		return 0, fmt.Errorf("%s: %w: %s", filepath.Base(file), errors.Join(err, ctx.Err()), line)
	}
	_, err = fmt.Sscan(string(out), &newest)
	return newest, err
}

// TestFilesOutliveCuts cuts the power under a process that writes to a bbolt file or to a log. With honest fsyncs,
// committed data is there and the file is sound. With lying fsyncs the same cuts must all be noticed: otherwise the test
// could notice nothing.
func TestFilesOutliveCuts(t *testing.T) {
	const cuts = 30
	for _, c := range []struct {
		name string
		lie  bool
	}{{"bolt.db", false}, {"bolt.db", true}, {"log", false}, {"log", true}} {
		lie := c.lie
		t.Run(fmt.Sprintf("%s lie=%v", c.name, lie), func(t *testing.T) {
			d := newDevice(t)
			d.set(faultfs.Faults{Lie: lie})
			file := filepath.Join(d.dir, c.name)
			var total simdisk.Loss
			committed, noticed := uint64(0), 0
			for seed := range uint64(cuts) {
				how := faultfs.Cutting{Seed: seed}
				if isLog(file) { // few of its appends are in flight at a cut: tear them
					how.Tear = simdisk.TearSubset
				}
				if lie { // an earlier cut may have spoilt the file: use a new one for each
					committed, file, how.Tear = 0, filepath.Join(d.dir, fmt.Sprintf("%d-%s", seed, c.name)), simdisk.TearHalf
				}
				after := 50 + rand.New(rand.NewPCG(seed, 1)).IntN(400)
				last, loss, err := writeUntilCut(d, file, faultfs.Freezing{After: after, Bound: 5 * time.Second}, how)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				total.Add(loss)
				committed = max(committed, last)
				if committed == 0 {
					t.Fatalf("seed %d: nothing was committed", seed)
				}
				image := t.TempDir()
				timeout.Check(t, os.CopyFS(image, os.DirFS(d.dir)))
				newest, err := sound(filepath.Join(image, filepath.Base(file)))
				switch {
				case err == nil && newest >= committed:
				case lie:
					noticed++
				default:
					t.Fatalf("seed %d: transaction %d was committed; found %d, %v", seed, committed, newest, err)
				}
			}
			t.Logf("%d cuts: %+v; %d transactions in the file; lost or corrupt: %d", cuts, total, committed, noticed)
			if lie && noticed < cuts {
				t.Errorf("loss or corruption was noticed on %d of %d lying disks, want all", noticed, cuts)
			}
			if total.Torn == 0 || total.Lost == 0 || total.Kept == 0 {
				t.Errorf("got %+v, want torn, lost and kept writes", total)
			}
		})
	}
}
