package simdisk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// disk is a Disk with paths instead of nodes.
type disk struct {
	*Disk
	t interface {
		Helper()
		Fatalf(format string, args ...any)
	}
}

func (d disk) dir(name string) *Node {
	d.t.Helper()
	n := d.Root()
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if part == "." {
			break
		}
		var err error
		if n, err = d.Lookup(n, part); err != nil {
			d.t.Fatalf("%s: %v", name, err)
		}
	}
	return n
}

func (d disk) file(name string) *Node {
	d.t.Helper()
	n, err := d.Lookup(d.dir(name), path.Base(name))
	if err != nil {
		d.t.Fatalf("%s: %v", name, err)
	}
	return n
}

func (d disk) create(name string) *Node {
	d.t.Helper()
	n, err := d.Create(d.dir(name), path.Base(name), 0o600)
	if err != nil {
		d.t.Fatalf("create %s: %v", name, err)
	}
	return n
}

func (d disk) mkdir(name string) *Node {
	d.t.Helper()
	n, err := d.Mkdir(d.dir(name), path.Base(name), 0o700)
	if err != nil {
		d.t.Fatalf("mkdir %s: %v", name, err)
	}
	return n
}

func (d disk) write(n *Node, data string, off int64) {
	d.t.Helper()
	if err := d.Write(n, []byte(data), off); err != nil {
		d.t.Fatalf("write: %v", err)
	}
}

func (d disk) content(n *Node) string {
	b := make([]byte, d.Size(n))
	return string(b[:d.Read(n, b, 0)])
}

func (d disk) has(name string) bool {
	_, err := d.Lookup(d.dir(name), path.Base(name))
	return err == nil
}

func (d disk) rename(from, to string) {
	d.t.Helper()
	if err := d.Rename(d.dir(from), path.Base(from), d.dir(to), path.Base(to)); err != nil {
		d.t.Fatalf("rename %s to %s: %v", from, to, err)
	}
}

// TestSyncedOutlivesEveryCut shows that fsynced data is there after a cut, and nothing else with TearAll.
func TestSyncedOutlivesEveryCut(t *testing.T) {
	for _, tear := range []Tear{TearAny, TearAll, TearPrefix, TearSubset} {
		d := disk{New(), t}
		f := d.create("f")
		d.write(f, "old", 0)
		d.Sync(f)
		d.Sync(d.Root())
		d.write(f, "tail", 4096*8)
		loss := d.Cut(dice(1), tear)
		got := d.content(d.file("f"))
		if !strings.HasPrefix(got, "old") {
			t.Errorf("tear %d: got %q, want the fsynced data", tear, got)
		}
		if tear == TearAll && (got != "old" || loss != Loss{Writes: 1, Bytes: 4, Lost: 4}) {
			t.Errorf("tear %d: got %q, %+v", tear, got, loss)
		}
	}
}

// TestCutTearsSectors checks a cut against its definition: every sector of a file has its durable content or the
// content of one of the writes since, and each outcome occurs.
func TestCutTearsSectors(t *testing.T) {
	var total Loss
	rapid.Check(t, func(t *rapid.T) {
		d := disk{New(), t}
		f := d.create("f")
		const sectors = 32
		d.write(f, strings.Repeat("0", sectors*512), 0)
		d.Sync(f)
		possible := make([]string, sectors)
		for i := range possible {
			possible[i] = "0"
		}
		for i := range rapid.IntRange(0, 20).Draw(t, "writes") {
			at := rapid.IntRange(0, sectors-1).Draw(t, "at")
			n := rapid.IntRange(1, sectors-at).Draw(t, "length")
			letter := string(rune('a' + i))
			d.write(f, strings.Repeat(letter, n*512), int64(at*512))
			for s := range n {
				possible[at+s] += letter
			}
		}
		seed := rapid.Uint64().Draw(t, "seed")
		loss := d.Cut(dice(seed), Tear(rapid.IntRange(int(TearAny), int(TearSubset)).Draw(t, "tear")))
		total.Add(loss)
		got := d.content(d.file("f"))
		if len(got) != sectors*512 {
			t.Fatalf("got %d bytes, want %d", len(got), sectors*512)
		}
		for s := range sectors {
			sector := got[s*512 : (s+1)*512]
			if strings.Count(sector, sector[:1]) != 512 || !strings.Contains(possible[s], sector[:1]) {
				t.Fatalf("sector %d holds %q..., want one of %q", s, sector[:8], possible[s])
			}
		}
	})
	if total.Torn == 0 || total.Kept == 0 || total.Lost == 0 || total.Lost == total.Bytes {
		t.Errorf("got %+v, want lost, torn and kept writes", total)
	}
}

// TestPrefixKeepsOrder shows that TearPrefix never keeps a sector when it has lost an earlier one.
func TestPrefixKeepsOrder(t *testing.T) {
	for seed := range uint64(200) {
		d := disk{New(), t}
		f := d.create("f")
		d.Sync(f)
		for i := range int64(8) {
			d.write(f, strings.Repeat("x", 1024), i*1024)
		}
		d.Cut(dice(seed), TearPrefix)
		if got := d.content(d.file("f")); strings.Trim(got, "x") != "" {
			t.Fatalf("seed %d: a hole in %d bytes", seed, len(got))
		}
	}
}

// TestHalfLosesTheLast shows what controls rely on: TearHalf certainly loses the last write.
func TestHalfLosesTheLast(t *testing.T) {
	var total Loss
	for seed := range uint64(50) {
		d := disk{New(), t}
		f := d.create("f")
		d.Sync(f)
		for i := range int64(8) {
			d.write(f, strings.Repeat("x", 4096), i*4096)
		}
		total.Add(d.Cut(dice(seed), TearHalf))
		if got := d.content(d.file("f")); len(got) > 4*4096 {
			t.Fatalf("seed %d: %d bytes are left, want at most half of them", seed, len(got))
		}
	}
	if total.Kept+total.Torn == 0 {
		t.Errorf("got %+v, want some bytes kept", total)
	}
}

// TestSizeIsLostLikeData shows that a truncation that was not fsynced may be undone.
func TestSizeIsLostLikeData(t *testing.T) {
	sizes := map[int]int{}
	for seed := range uint64(50) {
		d := disk{New(), t}
		f := d.create("f")
		d.write(f, "content", 0)
		d.Sync(f)
		if err := d.Resize(f, 3); err != nil {
			t.Fatal(err)
		}
		if got := d.content(f); got != "con" {
			t.Fatalf("got %q before the cut", got)
		}
		d.Cut(dice(seed), TearAny)
		sizes[len(d.content(d.file("f")))]++
	}
	if len(sizes) != 2 || sizes[3] == 0 || sizes[7] == 0 {
		t.Errorf("got sizes %v, want some of 3 and some of 7", sizes)
	}
	d := disk{New(), t}
	f := d.create("f")
	d.write(f, "content", 0)
	if err := errors.Join(d.Resize(f, 3), d.Resize(f, 7)); err != nil {
		t.Fatal(err)
	}
	if got := d.content(f); got != "con\x00\x00\x00\x00" {
		t.Errorf("got %q, want zeros where the file was cut and grown", got)
	}
}

// TestNames shows what happens to names with and without an fsync of their directory.
func TestNames(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(100) {
		d := disk{New(), t}
		old := d.create("identity")
		d.write(old, "old", 0)
		d.Sync(old)
		next := d.create(".identity")
		d.write(next, "new", 0)
		d.Sync(next)
		d.rename(".identity", "identity")
		if seed%2 == 0 {
			d.Sync(d.Root())
		}
		loss := d.Cut(dice(seed), TearAny)
		got := d.content(d.file("identity"))
		outcomes[got]++
		switch {
		case seed%2 == 0 && (got != "new" || loss.Names != 0):
			t.Errorf("seed %d: got %q, %+v after an fsync of the directory", seed, got, loss)
		case got == "new" == d.has(".identity"):
			t.Errorf("seed %d: got %q, and the former name is there: %v", seed, got, d.has(".identity"))
		}
	}
	if outcomes["old"] == 0 || outcomes["new"] <= 50 {
		t.Errorf("got %v, want a rename without fsync sometimes lost and sometimes kept", outcomes)
	}
}

// TestSnapshotDirectory repeats the steps of Raft's snapshots: a directory with a temporary name, files that are
// fsynced, a rename, an fsync of the parent. Whatever survives under the final name is complete.
func TestSnapshotDirectory(t *testing.T) {
	final := 0
	for seed := range uint64(100) {
		d := disk{New(), t}
		d.mkdir("snapshots")
		d.Sync(d.Root())
		d.mkdir("snapshots/1.tmp")
		f := d.create("snapshots/1.tmp/state")
		d.write(f, "state", 0)
		d.Sync(f)
		d.rename("snapshots/1.tmp", "snapshots/1")
		if seed%2 == 0 {
			d.Sync(d.file("snapshots"))
		}
		d.Cut(dice(seed), TearAny)
		if !d.has("snapshots/1") {
			if seed%2 == 0 {
				t.Errorf("seed %d: the snapshot is lost after an fsync of its directory", seed)
			}
			continue
		}
		final++
		if got := d.content(d.file("snapshots/1/state")); got != "state" {
			t.Errorf("seed %d: got %q", seed, got)
		}
	}
	if final == 100 || final <= 50 {
		t.Errorf("the snapshot survived %d of 100 cuts, want all of 50 and some of the others", final)
	}
}

// TestRemoved shows that a removal that was not fsynced may be undone, with the file's content.
func TestRemoved(t *testing.T) {
	back := 0
	for seed := range uint64(50) {
		d := disk{New(), t}
		f := d.create("f")
		d.write(f, "content", 0)
		d.Sync(f)
		if err := d.Remove(d.Root(), "f", false); err != nil {
			t.Fatal(err)
		}
		d.Cut(dice(seed), TearAny)
		if d.has("f") {
			back++
			if got := d.content(d.file("f")); got != "content" {
				t.Errorf("seed %d: got %q", seed, got)
			}
		}
	}
	if back == 0 || back == 50 {
		t.Errorf("the file came back %d times of 50, want some", back)
	}
}

// TestCutRepeats shows that the same dice give the same disk.
func TestCutRepeats(t *testing.T) {
	var left [2][]byte
	var losses [2]Loss
	for i := range left {
		d := disk{New(), t}
		for _, name := range []string{"a", "b", "c", "d"} {
			f := d.create(name)
			d.Sync(f)
			d.write(f, strings.Repeat(name, 1<<14), 0)
		}
		losses[i] = d.Cut(dice(7), TearAny)
		names, nodes := d.List(d.Root())
		for j, n := range nodes {
			left[i] = slices.Concat(left[i], []byte(names[j]), []byte(d.content(n)))
		}
	}
	if !bytes.Equal(left[0], left[1]) || losses[0] != losses[1] {
		t.Errorf("two cuts with one seed differ: %+v, %+v", losses[0], losses[1])
	}
}

func TestFull(t *testing.T) {
	d := disk{New(), t}
	f := d.create("f")
	d.write(f, "content", 0)
	d.SetFull(true)
	d.write(f, "CONTENT", 0)
	_, create := d.Create(d.Root(), "g", 0o600)
	_, mkdir := d.Mkdir(d.Root(), "h", 0o700)
	for _, err := range []error{d.Write(f, []byte("more"), 4), d.Resize(f, 8), create, mkdir} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want ENOSPC", err)
		}
	}
	d.SetFull(false)
	d.write(f, "more", 7)
	if got := d.content(f); got != "CONTENTmore" {
		t.Errorf("got %q", got)
	}
}

func TestRefusals(t *testing.T) {
	d := disk{New(), t}
	d.create("f")
	d.mkdir("d")
	d.create("d/f")
	root := d.Root()
	_, exists := d.Create(root, "f", 0o600)
	for want, got := range map[syscall.Errno]error{
		syscall.EEXIST:    exists,
		syscall.ENOENT:    d.Remove(root, "nothing", false),
		syscall.EISDIR:    d.Remove(root, "d", false),
		syscall.ENOTDIR:   d.Remove(root, "f", true),
		syscall.ENOTEMPTY: d.Remove(root, "d", true),
		syscall.EFBIG:     d.Resize(d.file("f"), maxSize+1),
	} {
		if !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if err := d.Rename(root, "nothing", root, "f"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("rename of nothing: got %v", err)
	}
	if err := d.Rename(root, "f", root, "d"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("rename onto a directory: got %v", err)
	}
}
