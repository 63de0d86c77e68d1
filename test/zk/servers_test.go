//go:build e2e

package zk

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// listsJava and listsPython are the programs of TestServerLists.
	listsJava, listsPython = "ServerLists.java", "serverlists.py"
	// listsClients is how many clients the Java program has.
	listsClients = 24
	cLibrary     = "/usr/lib/x86_64-linux-gnu/libzookeeper_mt.so.2"
)

// TestServerLists changes the lists of servers of clients that are connected: the Java client's updateServerList, the C
// client's zoo_set_servers, kazoo's set_hosts. Lists grow, shrink, and lose the server that a client is at. Sessions,
// ephemerals and watches go on.
func TestServerLists(t *testing.T) {
	nodes := nodesOf(t)
	all := begin(t, nodes)
	ports := make([]string, len(all))
	for i, address := range all {
		ports[i] = address[strings.LastIndexByte(address, ':')+1:]
	}
	t.Run("Java", func(t *testing.T) { javaLists(t, all, ports) })
	// Both may stay where they are while that serves: so it ends.
	end := func(t *testing.T, client string, want ...string) {
		t.Helper()
		var killed *node
		said := talk(t, func(line string) string {
			port, asks := strings.CutPrefix(line, "kill ")
			if !asks {
				return ""
			}
			killed = nodes[slices.Index(ports, port)]
			killed.process.Kill()
			<-killed.process.Ended()
			return "killed\n"
		}, python, listsPython, client, all[0], all[1]+","+all[2])
		asked := len(said) == 2 && (said[0] == "kill "+ports[0] || slices.Contains(want, said[0]))
		if !asked || !slices.Contains(ports[1:], said[1]) {
			t.Errorf("it said %q", said)
		}
		if killed != nil {
			killed.begin(t)
			killed.serves(t)
		}
	}
	t.Run("C", func(t *testing.T) {
		need(t, python, "python3")
		need(t, cLibrary, "libzookeeper-mt2")
		end(t, "c", "kill "+ports[1], "kill "+ports[2]) // it may have left at once
	})
	t.Run("kazoo", func(t *testing.T) {
		need(t, python, "python3-kazoo")
		need(t, "/usr/lib/python3/dist-packages/kazoo", "python3-kazoo")
		end(t, "kazoo")
	})
}

// javaLists checks at which nodes the clients of the Java program are with each list.
func javaLists(t *testing.T, all, ports []string) {
	t.Helper()
	need(t, jar, "libzookeeper-java")
	need(t, compiler, "default-jdk-headless")
	said := talk(t, nil, "java", "-Xmx256m", "-cp", jar, listsJava, strings.Join(all, ","))
	lists := [][]string{ports[:1], ports, ports[1:], ports[2:], ports[:2], ports}
	if len(said) != len(lists) {
		t.Fatalf("it said %q", said)
	}
	for i, list := range lists {
		from, at, _ := strings.Cut(said[i], ":")
		sum, where := 0, map[string]int{}
		for _, one := range regexp.MustCompile(`(\d+)=(\d+)`).FindAllStringSubmatch(at, -1) {
			where[one[1]], _ = strconv.Atoi(one[2])
			sum += where[one[1]]
		}
		if from != "of "+strings.Join(list, ",") || sum != listsClients {
			t.Errorf("of %q it said %q", list, said[i])
		}
		if added := list[len(list)-1]; len(list) == len(ports) && where[added] == 0 {
			t.Errorf("of %q nobody has gone to the server that was added last: %q", list, said[i])
		}
		t.Log(said[i])
	}
}
