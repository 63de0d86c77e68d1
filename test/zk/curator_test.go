//go:build e2e

package zk

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// curatorJar is that of Debian's libcurator-recipes-java, which brings the others.
	curatorJar = "/usr/share/java/curator-recipes.jar"
	// compiler is what runs a source file: a runtime alone cannot.
	compiler      = "javac"
	curatorWait   = 5 * time.Minute
	curatorSource = "Application.java"
)

// TestCurator runs an application of Curator against three nodes, and kills the one that it is connected to.
func TestCurator(t *testing.T) {
	needCurator(t)
	nodes := nodesOf(t)
	addresses := begin(t, nodes)
	killed := 0
	said := curator(t, "recipes", addresses, func(line string) string {
		port, asks := strings.CutPrefix(line, "kill ")
		if !asks {
			return ""
		}
		for _, n := range nodes {
			if strings.HasSuffix(n.address, ":"+port) {
				n.process.Kill()
				<-n.process.Ended()
				killed++
			}
		}
		return "killed\n"
	})
	said = slices.DeleteFunc(said, func(line string) bool { return strings.HasPrefix(line, "kill ") })
	want := []string{
		"InterProcessMutex", "LeaderLatch", "CuratorCache", "TreeCache", "PersistentNode", "connection states",
	}
	if !slices.Equal(said, want) || killed != 1 {
		t.Errorf("%d nodes killed, and what works is %q, want %q", killed, said, want)
	}
}

// TestCuratorMoves takes the steps of docs/zookeeper.md with an application of Curator: its counter, its numbers and
// its lock go on, and it stays with the connect string that it was given.
func TestCuratorMoves(t *testing.T) {
	needCurator(t)
	m := newMove(t)
	before := curator(t, "work", []string{m.source}, nil)
	want := func(count, job int, servers []string) []string {
		return []string{
			fmt.Sprint("count ", count), fmt.Sprintf("job /app/jobs/job-%010d", job), "members [me]",
			"servers " + strings.Join(servers, ","),
		}
	}
	if w := want(5, 4, []string{m.source}); !slices.Equal(before, w) {
		t.Fatalf("at ZooKeeper it said %q, want %q", before, w)
	}
	m.run(0, m.source, "--max-version", "10000")
	again := curator(t, "work", []string{m.source}, nil) // it goes on after the first copy
	if w := want(10, 9, []string{m.source}); !slices.Equal(again, w) {
		t.Fatalf("at ZooKeeper it said %q, want %q", again, w)
	}
	if i := m.run(0, m.source, "--overwrite", "--delete"); !i.Equal {
		t.Fatalf("the second copy differs: %+v", i)
	}
	after := curator(t, "work", m.targets, nil)
	if w := want(15, 14, m.targets); !slices.Equal(after, w) {
		t.Errorf("at the nodes it said %q, want %q", after, w)
	}
}

func needCurator(t *testing.T) {
	t.Helper()
	need(t, jar, "libzookeeper-java")
	need(t, curatorJar, "libcurator-recipes-java")
	need(t, compiler, "default-jdk-headless")
}

// curator runs a part of the application, and returns what it says that it has done. It answers each line by that of
// answer, if that is not empty.
func curator(t *testing.T, part string, servers []string, answer func(line string) string) (said []string) {
	t.Helper()
	const jars = "/usr/share/java/"
	path := strings.Join([]string{
		curatorJar, jars + "curator-framework.jar", jars + "curator-client.jar", jar, jars + "guava.jar",
	}, ":")
	return talk(t, answer, "java", "-Xmx256m", "-cp", path, curatorSource, part, strings.Join(servers, ","))
}

// talk runs a program, and returns the lines that it begins with "= ". It answers each by that of answer, if there is
// one.
func talk(t *testing.T, answer func(line string) string, program string, args ...string) (said []string) {
	t.Helper()
	p := converse(t, program, program, args...)
	for {
		line, ok := p.next()
		if !ok {
			break
		}
		said = append(said, line)
		if answer != nil {
			_, _ = io.WriteString(p.in, answer(line)) // an application that has ended says nothing more
		}
	}
	p.ends(t)
	return said
}
