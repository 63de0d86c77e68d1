package ui

import (
	"fmt"
	"testing"
)

// A page that is open while the leader goes away shows the next one, without a reload.
func TestFailOver(t *testing.T) {
	c := begin(t, nil)
	c.connect(t)
	leader := c.leader(t)
	at := (leader + 1) % 3
	b := open(t, c.configs[at].Listen.HTTP)
	b.visit(c.url(at, ""))
	b.shows("No problems")
	value[bool](b, "window.same = true")
	c.nodes[leader].stop(t)
	b.shows(fmt.Sprintf("No status from node %d: unreachable", leader+1))
	b.until(`[...document.querySelectorAll("tbody tr")].some((r) => r.cells[1].textContent === "leader")`)
	if !value[bool](b, "window.same === true") {
		t.Error("the page was loaded anew as a whole")
	}
	b.until(fmt.Sprintf(`[...document.querySelectorAll(".events li")].some((l) => /Node \d leads term/.test(l.textContent) && !l.textContent.includes("Node %d leads"))`, leader+1))
}

// A node that is cut off from the others says so on a page that is open, and that it is over.
func TestPartition(t *testing.T) {
	c := begin(t, nil)
	c.connect(t)
	at := (c.leader(t) + 1) % 3
	b := open(t, c.configs[at].Listen.HTTP)
	b.expect("Failed to load resource") // an answer 503 while there is no leader
	b.visit(c.url(at, ""))
	b.shows("No problems")
	c.nodes[at].net.cut()
	b.shows(fmt.Sprintf("Node %d is not ready", at+1))
	c.nodes[at].net.mend()
	b.shows("No problems")
}

// A page whose node is gone says that it is stale.
func TestStale(t *testing.T) {
	c := begin(t, nil)
	b := open(t, c.configs[0].Listen.HTTP)
	b.expect("Failed to load resource")
	b.expect("net::ERR")
	b.visit(c.url(0, "sessions"))
	b.until(`document.getElementById("live").textContent === "Live"`)
	c.nodes[0].stop(t)
	b.until(`document.getElementById("live").textContent.startsWith("Stale")`)
}
