//go:build e2e

package e2e

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// boxFile is the image of a box: the command line, and this test's program for it to run. Nothing else is in it.
const boxFile = `FROM scratch
COPY holdfast worker /
ENTRYPOINT ["/holdfast"]
`

const (
	boxImage  = "holdfast-e2e-box"
	boxRecord = "/record"
	// boxStop is how long "docker stop" waits before it kills.
	boxStop = 20 * time.Second
)

// boxBuilt builds the image once.
var boxBuilt = sync.OnceValue(func() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err = static(self); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-box-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, from := range map[string]string{"holdfast": holdfastProgram, "worker": self} {
		if err = copyTo(filepath.Join(dir, name), from); err != nil {
			return err
		}
	}
	if err = os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(boxFile), 0o644); err != nil {
		return err
	}
	_, err = command(nil, "docker", "build", "-q", "-t", boxImage, dir)
	return err
})

// copyTo copies a program.
func copyTo(to, from string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// static returns an error unless a program runs without any library.
func static(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("this test's program does not run in an image FROM scratch: build it with CGO_ENABLED=0, as " +
			"\"make e2e\" does")
	}
	return nil
}

// box is a container in which "holdfast" is process 1.
type box struct {
	c  *cluster
	id string
	// cable is a container that does nothing, and has the network of a box with a cable. It stays when the box ends, so
	// packets can be dropped and counted there.
	cable string
}

// boxed is what a box runs.
type boxed struct {
	// holdfast are the arguments, and program a name of programs or jobs.
	holdfast []string
	program  string
	// record is a directory of this machine that the program has as boxRecord; empty for none.
	record string
	// cable says that packets are to be dropped around the box.
	cable bool
}

// box starts one. It ends with the test.
func (c *cluster) box(b boxed) *box {
	c.t.Helper()
	if err := boxBuilt(); err != nil {
		c.t.Fatal(err)
	}
	x := &box{c: c}
	network := c.project + "_clients"
	if b.cable {
		x.cable = c.beside("--network", network, "holdfast-cut", "hold")
		network = "container:" + x.cable
	}
	var endpoints []string
	for _, n := range c.all() {
		endpoints = append(endpoints, fmt.Sprintf("%s:%d", service(n), clientPort))
	}
	args := []string{
		"--network", network, "--read-only", "--cap-drop", "ALL",
		"--user", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		"-e", "HOLDFAST_ENDPOINTS=" + strings.Join(endpoints, ","), "-e", workerVar + "=" + b.program,
	}
	if b.record != "" {
		args = append(args, "-v", b.record+":"+boxRecord, "-e", recordVar+"="+boxRecord)
	}
	x.id = c.beside(slices.Concat(args, []string{boxImage}, b.holdfast, []string{"--", "/worker"})...)
	return x
}

// beside starts a container beside the cluster, with arguments of "docker run". It ends with the test.
func (c *cluster) beside(args ...string) (id string) {
	c.t.Helper()
	id = must(c.t, append([]string{"docker", "run", "-d"}, args...)...)
	c.t.Cleanup(func() {
		if _, err := command(nil, "docker", "rm", "-f", id); err != nil {
			c.t.Error(err)
		}
	})
	return id
}

// under returns the arguments of a command that runs a program, which waits if it must.
func under(command, name string) []string {
	return []string{command, name, "--timeout", minTimeout.String()}
}

// ends waits for the end of the box, and checks its exit code.
func (x *box) ends(want int) {
	x.c.t.Helper()
	if got := must(x.c.t, "docker", "wait", x.id); got != strconv.Itoa(want) {
		x.c.t.Errorf("the box exits with %s, want %d:\n%s", got, want, x.logs())
	}
}

// stop is "docker stop". A box that does not end in time is killed: its exit code is then 137.
func (x *box) stop() {
	x.c.t.Helper()
	must(x.c.t, "docker", "stop", "-t", strconv.Itoa(int(boxStop.Seconds())), x.id)
}

// logs returns what the box has printed, each line behind its time.
func (x *box) logs() string {
	x.c.t.Helper()
	return must(x.c.t, "sh", "-c", "docker logs -t "+x.id+" 2>&1")
}

// said waits for a line that the box prints, and returns when it did.
func (x *box) said(want string) (at time.Time) {
	x.c.t.Helper()
	x.c.await(2*minTimeout+healWithin, fmt.Sprintf("the box says %q", want), func() (bool, string) {
		all := x.logs()
		for line := range strings.Lines(all) {
			stamp, text, _ := strings.Cut(line, " ")
			var err error
			if at, err = time.Parse(time.RFC3339Nano, stamp); err == nil && strings.Contains(text, want) {
				return true, ""
			}
		}
		return false, all
	})
	return at
}

// cut drops packets between the box and all nodes.
func (x *box) cut(flags ...string) *partition {
	x.c.t.Helper()
	cut := packetCut{around: "the box", at: x.cable, flags: append([]string{port(clientPort)}, flags...)}
	for _, n := range x.c.all() {
		cut.others = append(cut.others, x.c.addresses(n))
	}
	p := &partition{c: x.c}
	p.drop(cut)
	return p
}

// TestProcessOne runs "holdfast" as process 1 of a container that has nothing but it and the program: "docker stop"
// reaches the program, which has its time, the exit code is the program's, and orphans are reaped.
func TestProcessOne(t *testing.T) {
	c := up(t, 3)
	for program, code := range map[string]int{"fails": exitOfFails, "dies": 128 + 9, "orphans": 0} {
		one := c.box(boxed{holdfast: under("lock", program), program: program})
		defer func() {
			one.ends(code)
			if program == "orphans" {
				one.said(fmt.Sprint(orphanCount, " orphans are gone"))
			}
		}()
	}
	var ordered time.Time
	for _, command := range []string{"register", "elect", "lock"} {
		polite := c.box(boxed{holdfast: under(command, "polite"), program: "polite"})
		polite.said("runs")
		polite.stop()
		polite.ends(exitOfPolite)
		ordered = polite.said("is in order")
	}
	next := c.box(boxed{holdfast: append(under("lock", "polite"), "--wait", "0"), program: "polite"})
	if begins := next.said("runs"); begins.Before(ordered) {
		t.Errorf("the next one runs from %v on, before the former has put its things in order at %v", begins, ordered)
	}
	c.stopsWaiting("polite")
	next.stop()
	next.ends(exitOfPolite)
}

// stopsWaiting stops a box that waits for a lock that another has. It ends at once, and leaves the line.
func (c *cluster) stopsWaiting(lock string) {
	c.t.Helper()
	waiter := c.box(boxed{holdfast: under("lock", lock), program: "polite"})
	contenders := func(want int) {
		c.t.Helper()
		c.await(healWithin, fmt.Sprintf("the lock has %d contenders", want), func() (bool, string) {
			out, code := c.holdfast("", "lock", "show", lock, "-o", "json")
			return code == 0 && strings.Count(out, `"token"`) == want, out
		})
	}
	contenders(2)
	waiter.stop()
	waiter.ends(1)
	contenders(1)
}
