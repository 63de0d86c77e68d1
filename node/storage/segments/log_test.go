package segments

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// memory is a stable store. A set fails while failing is set.
type memory struct {
	mu      sync.Mutex
	values  map[string][]byte // guarded by mu
	failing error             // guarded by mu
}

func (m *memory) Set(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing != nil {
		return m.failing
	}
	m.values[string(key)] = bytes.Clone(value)
	return nil
}

func (m *memory) Get(key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.values[string(key)]; ok {
		return v, nil
	}
	return nil, raftboltdb.ErrKeyNotFound
}

func (m *memory) SetUint64([]byte, uint64) error   { return errors.ErrUnsupported }
func (m *memory) GetUint64([]byte) (uint64, error) { return 0, errors.ErrUnsupported }

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = err
}

func (m *memory) clone() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memory{values: maps.Clone(m.values)}
}

// disk is a log's folder and stable store, without an open log.
type disk struct {
	t *testing.T
	o Options
}

func newDisk(t *testing.T, size int) disk {
	t.Helper()
	return disk{t: t, o: Options{
		Folder: filepath.Join(t.TempDir(), "log"), Owner: 0xaa11bb22cc33dd44, Stable: &memory{values: map[string][]byte{}},
		Logger: hclog.NewNullLogger(), Size: size,
	}}
}

func (d disk) open() *Log {
	d.t.Helper()
	l, err := Open(d.o)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = l.Close() })
	return l
}

// copy returns what a crash leaves now. The log makes segments in the background.
func (d disk) copy() disk {
	d.t.Helper()
	for {
		stable := d.o.Stable.(*memory)
		before := stable.clone()
		to := filepath.Join(d.t.TempDir(), "log")
		if err := os.CopyFS(to, os.DirFS(d.o.Folder)); err != nil {
			d.t.Fatal(err)
		}
		if after := stable.clone(); maps.EqualFunc(before.values, after.values, bytes.Equal) {
			d.o.Folder, d.o.Stable = to, before
			return d
		}
	}
}

// segments returns the paths of the files, the oldest first.
func (d disk) segments() []string {
	d.t.Helper()
	all, err := filepath.Glob(filepath.Join(d.o.Folder, "*.wal"))
	if err != nil || len(all) == 0 {
		d.t.Fatalf("segments %v, %v", all, err)
	}
	return all
}

// entryOf returns the entry that each log here has at an index.
func entryOf(index uint64) *raft.Log {
	r := rand.New(rand.NewPCG(index, 1))
	data := make([]byte, r.IntN(700))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return &raft.Log{Index: index, Term: 1 + index/10, Type: raft.LogCommand, Data: data}
}

func (d disk) append(l *Log, first, last uint64) {
	d.t.Helper()
	var all []*raft.Log
	for index := first; index <= last; index++ {
		all = append(all, entryOf(index))
	}
	if err := l.StoreLogs(all); err != nil {
		d.t.Fatal(err)
	}
}

// has fails unless the log has exactly the entries from first to last.
func (d disk) has(l *Log, first, last uint64) {
	d.t.Helper()
	from, err := l.FirstIndex()
	to, lastErr := l.LastIndex()
	if err = errors.Join(err, lastErr); err != nil || from != first || to != last {
		d.t.Fatalf("the log has entries %d to %d, %v; want %d to %d", from, to, err, first, last)
	}
	for index := first; index <= last && index > 0; index++ {
		var got raft.Log
		want := entryOf(index)
		if err := l.GetLog(index, &got); err != nil || got.Index != index || got.Term != want.Term ||
			!bytes.Equal(got.Data, want.Data) {
			d.t.Fatalf("entry %d: %+v, %v", index, got, err)
		}
	}
	var none raft.Log
	for _, index := range []uint64{first - 1, last + 1} {
		if err := l.GetLog(index, &none); !errors.Is(err, raft.ErrLogNotFound) {
			d.t.Errorf("entry %d: %v", index, err)
		}
	}
}

// TestLog appends, deletes at both ends, and opens the log again, over several segments.
func TestLog(t *testing.T) {
	d := newDisk(t, 8<<10)
	l := d.open()
	d.has(l, 0, 0)
	again := func() {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = d.open()
	}
	d.append(l, 1, 3)
	if err := l.DeleteRange(1, 2); err != nil { // of the newest segment
		t.Fatal(err)
	}
	d.has(l, 3, 3)
	for first := uint64(4); first < 100; first += 3 {
		d.append(l, first, first+2)
	}
	d.has(l, 3, 99)
	again()
	d.has(l, 3, 99)
	if n := len(d.segments()); n < 3 {
		t.Fatalf("%d segments", n)
	}
	for _, step := range []struct {
		name                    string
		first, last, from, upTo uint64
	}{
		{"the oldest", 1, 40, 41, 99},
		{"the newest", 90, 99, 41, 89},
		{"the newest of several segments", 50, 89, 41, 49},
		{"none", 10, 20, 41, 49},
		{"all", 41, 49, 0, 0},
	} {
		if err := l.DeleteRange(step.first, step.last); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		d.has(l, step.from, step.upTo)
		again()
		d.has(l, step.from, step.upTo)
	}
	d.append(l, 200, 210) // after a snapshot of another node
	again()
	d.append(l, 211, 220)
	d.has(l, 200, 220)
	if n := len(d.segments()); n > 3 {
		t.Errorf("%d segments are left", n)
	}
}

// TestEveryByteOfALog changes each byte of each segment, one at a time. The log names the file, or the change is in one
// of the two newest appends, which then count as torn. No changed entry is ever read.
func TestEveryByteOfALog(t *testing.T) {
	d := newDisk(t, 5<<10)
	l := d.open()
	for first := uint64(1); first < 36; first += 3 {
		d.append(l, first, first+2)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(d.segments()); n != 3 { // the newest has several batches
		t.Fatalf("%d segments", n)
	}
	for _, path := range d.segments() { // without the space that they have for more
		whole, err := os.ReadFile(path)
		if err = errors.Join(err, os.Truncate(path, int64(len(bytes.TrimRight(whole, "\x00"))+1))); err != nil {
			t.Fatal(err)
		}
	}
	refused, torn := 0, 0
	for _, path := range d.segments() {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range whole {
			changed := bytes.Clone(whole)
			changed[at] ^= 0x10
			if err = os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			var damaged *Log
			damaged, err = Read(d.o)
			named := &FileError{}
			switch {
			case errors.As(err, &named) && named.File == path:
				refused++
				continue
			case err != nil:
				t.Fatalf("byte %d of %s: %v", at, path, err)
			}
			var last uint64
			last, err = damaged.LastIndex()
			if err != nil || last != 36 && last != 33 && last != 30 {
				t.Fatalf("byte %d of %s: the log ends with entry %d, %v", at, path, last, err)
			}
			if last < 36 {
				torn++
			}
			d.has(damaged, 1, last)
			if err = damaged.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err = os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 || torn == 0 {
		t.Errorf("%d changes were refused, %d taken for a torn append", refused, torn)
	}
}

// TestTornAppends leaves any part of an append on the disk, twice in a row. The log has the append as a whole or not at
// all, everything before it, and takes further appends.
func TestTornAppends(t *testing.T) {
	const sector = 512
	there, not := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		d := newDisk(t, 6<<10)
		l := d.open()
		last := uint64(0)
		more := func(n uint64) {
			d.append(l, last+1, last+n)
			last += n
		}
		for range 3 + r.IntN(5) {
			more(1 + r.Uint64N(4))
		}
		for range 2 {
			before := d.copy()
			n := 1 + r.Uint64N(6)
			d.append(l, last+1, last+n)
			// The list of segments as before: the rotation had not begun.
			crashed := before
			for _, path := range d.segments() {
				name := filepath.Base(path)
				old, err := os.ReadFile(filepath.Join(before.o.Folder, name))
				if err != nil {
					continue // made after the append
				}
				now, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				image := append(bytes.Clone(old), make([]byte, max(0, len(now)-len(old)))...)
				for at := 0; at < len(now); at += sector {
					if r.IntN(8) > 0 {
						copy(image[at:min(at+sector, len(now))], now[at:])
					}
				}
				if err = os.WriteFile(filepath.Join(crashed.o.Folder, name), image, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			d, l = crashed, crashed.open()
			got, err := l.LastIndex()
			switch {
			case err == nil && got == last:
				not++
			case err == nil && got == last+n:
				there++
				last = got
			default:
				t.Fatalf("seed %d: the log ends with entry %d, %v, want %d or %d", seed, got, err, last, last+n)
			}
			d.has(l, 1, last)
			more(1 + r.Uint64N(3))
			d.has(l, 1, last)
		}
	}
	if there < 20 || not < 20 {
		t.Errorf("the torn append was there %d times and missing %d times: want some of each", there, not)
	}
}

// TestACrashBeforeTheNewList: the append that completes a segment is on disk, and the list that says so is not. Without
// mend, raft-wal refuses all appends (raft-wal 0.4.2).
func TestACrashBeforeTheNewList(t *testing.T) {
	broken := errors.New("a broken disk")
	d := newDisk(t, 2<<10)
	l := d.open()
	d.o.Stable.(*memory).fail(broken)
	last := uint64(0)
	var err error
	for err == nil {
		if err = l.StoreLog(entryOf(last + 1)); err == nil {
			last++
		}
		if last > 100 {
			t.Fatal("no segment was completed")
		}
	}
	if !errors.Is(err, broken) {
		t.Errorf("the append after the failed list: %v, want the reason", err)
	}
	if err = l.DeleteRange(1, 1); !errors.Is(err, broken) { // the list would forget the number of a file that is there
		t.Errorf("a deletion after the failed list: %v, want the reason", err)
	}
	if err = l.Close(); err != nil {
		t.Fatal(err)
	}
	d.o.Stable.(*memory).fail(nil)
	list, err := readList(d.o.Stable)
	if err != nil {
		t.Fatal(err)
	}
	l, err = open(d.o, list, &files{})
	if err != nil {
		t.Fatal(err)
	}
	if err = l.StoreLog(entryOf(last + 1)); err == nil {
		t.Error("raft-wal has no need of mend any more")
	}
	if err = l.Close(); err != nil {
		t.Fatal(err)
	}
	l = d.open()
	d.has(l, 1, last)
	d.append(l, last+1, last+9)
	d.has(l, 1, last+9)
}

func TestRefusedLogs(t *testing.T) {
	d := newDisk(t, 2<<10)
	l := d.open()
	early := d.copy()
	for first := uint64(1); first < 30; first += 3 {
		d.append(l, first, first+2)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		do   func(d *disk, all []string) error
		file int // of the segments; -1: the list, -2: the folder
		want string
	}{
		"the newest is missing": {func(_ *disk, all []string) error { return os.Remove(all[len(all)-1]) }, len(d.segments()) - 1, "is missing"},
		"one is missing":        {func(_ *disk, all []string) error { return os.Remove(all[1]) }, 1, "is missing"},
		"one is cut short":      {func(_ *disk, all []string) error { return os.Truncate(all[0], 700) }, 0, "is damaged or cut short: it ends with entry"},
		"the folder is missing": {func(d *disk, _ []string) error { return os.RemoveAll(d.o.Folder) }, 0, "is missing"},
		"one is in another's place": {func(_ *disk, all []string) error {
			b, err := os.ReadFile(all[0])
			return errors.Join(err, os.WriteFile(all[1], b, 0o600))
		}, 1, "is a copy of another segment"},
		"an older list":             {func(d *disk, _ []string) error { d.o.Stable = early.o.Stable; return nil }, -1, "is an older copy"},
		"it lacks an applied entry": {func(d *disk, _ []string) error { d.o.Least = 31; return nil }, -2, "has lost entries: it ends with entry 30"},
		"another directory's":       {func(d *disk, _ []string) error { d.o.Owner++; return nil }, 0, "belongs to the log of directory aa11bb22cc33dd44"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := d.copy()
			all := bad.segments()
			if err := test.do(&bad, all); err != nil {
				t.Fatal(err)
			}
			want := map[int]string{-1: "", -2: bad.o.Folder}
			for i, path := range all {
				want[i] = path
			}
			before := contentOf(t, bad.o.Folder)
			for name, open := range map[string]func(Options) (*Log, error){"Open": Open, "Read": Read} {
				_, err := open(bad.o)
				named := &FileError{}
				if !errors.As(err, &named) || !strings.HasPrefix(named.Problem, test.want) || named.File != want[test.file] {
					t.Errorf("%s: %v, want %q", name, err, test.want)
				}
			}
			if !maps.Equal(contentOf(t, bad.o.Folder), before) {
				t.Error("the files were changed")
			}
		})
	}
}

// TestRead changes nothing, whatever a crash has left.
func TestRead(t *testing.T) {
	d := newDisk(t, 2<<10)
	l := d.open()
	empty := d.copy()
	d.append(l, 1, 20)
	whole := d.copy()
	torn := d.copy()
	newest := torn.segments()[len(torn.segments())-1]
	f, err := os.OpenFile(newest, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if _, writeErr := f.WriteAt([]byte{1, 0, 0, 0, 9, 0, 0, 0, 7}, info.Size()); writeErr != nil || err != nil {
		t.Fatal(err, writeErr)
	}
	if err = f.Close(); err != nil {
		t.Fatal(err)
	}
	unmade := empty
	if err = os.Remove(empty.segments()[0]); err != nil {
		t.Fatal(err)
	}
	unmade.o.Stable.(*memory).values[listKey] = bytes.Replace(unmade.o.Stable.(*memory).values[listKey], []byte(`"Made":1`), []byte(`"Made":0`), 1)
	for _, test := range []struct {
		name string
		d    disk
		last uint64
	}{{"whole", whole, 20}, {"torn", torn, 20}, {"unmade", unmade, 0}} {
		before := fmt.Sprint(test.d.o.Stable.(*memory).values, contentOf(t, test.d.o.Folder))
		test.d.o.Stable.(*memory).fail(errors.New("it writes"))
		l, err := Read(test.d.o)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		d.has(l, min(test.last, 1), test.last)
		if err = l.Close(); err != nil {
			t.Error(err)
		}
		if after := fmt.Sprint(test.d.o.Stable.(*memory).values, contentOf(t, test.d.o.Folder)); after != before {
			t.Errorf("%s: it was changed", test.name)
		}
	}
}

func contentOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return all
	}
	for _, e := range entries {
		var b []byte
		b, err = os.ReadFile(filepath.Join(folder, e.Name()))
		all[e.Name()] = string(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestACrashBeforeAFileIsRecorded: the newest segment has a file, and the list does not say so yet. It says so before an
// entry is in the file: without the file there is no log any more.
func TestACrashBeforeAFileIsRecorded(t *testing.T) {
	d := newDisk(t, 2<<10)
	if err := d.open().Close(); err != nil {
		t.Fatal(err)
	}
	values := d.o.Stable.(*memory).values
	values[listKey] = bytes.Replace(values[listKey], []byte(`"Made":1`), []byte(`"Made":0`), 1)
	l := d.open()
	d.append(l, 1, 3)
	if err := errors.Join(l.Close(), os.Remove(d.segments()[0])); err != nil {
		t.Fatal(err)
	}
	named := &FileError{}
	if _, err := Open(d.o); !errors.As(err, &named) || !strings.HasPrefix(named.Problem, "is missing") {
		t.Errorf("got %v, want that the segment is missing", err)
	}
}

// TestReadsBesideDeletions: a reader of old entries gets them, or that they are not in the log, while others delete and
// append.
func TestReadsBesideDeletions(t *testing.T) {
	d := newDisk(t, 2<<10)
	l := d.open()
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				first, err := l.FirstIndex()
				if err == nil && first > 0 {
					var entry raft.Log
					if err = l.GetLog(first, &entry); errors.Is(err, raft.ErrLogNotFound) {
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for first := uint64(1); first < 3000; first += 3 {
		d.append(l, first, first+2)
		if first > 20 {
			if err := l.DeleteRange(1, first-20); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(ended)
	readers.Wait()
}

// TestAnEntryThatChangesLater: what the disk changes while the log is open is an error, and no panic.
func TestAnEntryThatChangesLater(t *testing.T) {
	d := newDisk(t, 1<<20)
	l := d.open()
	d.append(l, 1, 3)
	f, err := os.OpenFile(d.segments()[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 16), headerSize+frameSize); err != nil {
		t.Fatal(err)
	}
	var entry raft.Log
	if err = l.GetLog(1, &entry); err == nil || errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("got %v", err)
	}
}

// TestPathsInUse: the owner of a log learns of each segment for as long as the log uses it.
func TestPathsInUse(t *testing.T) {
	d := newDisk(t, 2<<10)
	var mu sync.Mutex
	used := map[string]bool{}
	d.o.Opened = func(path string) (func(), error) {
		mu.Lock()
		defer mu.Unlock()
		used[path] = true
		return func() {
			mu.Lock()
			defer mu.Unlock()
			delete(used, path)
		}, nil
	}
	l := d.open()
	for first := uint64(1); first < 30; first += 3 {
		d.append(l, first, first+2)
	}
	if err := l.DeleteRange(1, 15); err != nil {
		t.Fatal(err)
	}
	d.append(l, 31, 31) // waits for a new segment
	on := map[string]bool{}
	for _, path := range d.segments() {
		on[path] = true
	}
	mu.Lock()
	if !maps.Equal(used, on) {
		t.Errorf("in use are %v, in the folder %v", used, on)
	}
	mu.Unlock()
	if err := l.Close(); err != nil || len(used) > 0 {
		t.Errorf("after Close: %v, in use %v", err, used)
	}
}

// BenchmarkAppend is one append with its sync, beside one of raft-boltdb.
func BenchmarkAppend(b *testing.B) {
	for name, open := range map[string]func(dir string) (raft.LogStore, error){
		"segments": func(dir string) (raft.LogStore, error) {
			return Open(Options{
				Folder: filepath.Join(dir, "log"), Owner: 1, Stable: &memory{values: map[string][]byte{}},
				Logger: hclog.NewNullLogger(), Size: 16 << 20,
			})
		},
		"boltdb": func(dir string) (raft.LogStore, error) {
			return raftboltdb.New(raftboltdb.Options{
				Path: filepath.Join(dir, "raft.db"), BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
			})
		},
	} {
		for _, size := range []int{300, 256 << 10} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				log, err := open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				defer log.(interface{ Close() error }).Close()
				data, index := make([]byte, size), uint64(0)
				var took []time.Duration
				for b.Loop() {
					index++
					began := time.Now()
					if err := log.StoreLog(&raft.Log{Index: index, Term: 1, Data: data}); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-p50")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us-p99")
			})
		}
	}
}
