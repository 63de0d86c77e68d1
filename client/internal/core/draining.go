package core

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// avoidFor is how long a client tries a node last that has sent it away.
const avoidFor = time.Minute

// inDraining handles a node's news that it is about to be taken away (Q1), or has a full disk (O5). The client moves at
// once, in the order that the node gives it. The node serves the sessions until another one does, so that no promise is
// lost. A client with local sessions stays: they end elsewhere, and it has one connection.
func (k *links) inDraining(c *Conn, m *holdfastv1.Draining) {
	r := &k.router
	k.avoid(c, m.GetTry())
	if c != k.cur || c.failing != nil && !c.dismissed() {
		return
	}
	why := &session.DrainingError{DiskFull: m.GetDiskFull()}
	if local, _ := k.locals(); local {
		k.effects.log(hclog.Info, "staying with a node for the sake of local sessions", "address", c.Address, "error", why)
		return
	}
	k.effects.log(hclog.Info, "looking for another node", "address", c.Address, "error", why)
	k.endMove()
	c.failing = why
	r.Moving, r.Fresh, r.Rounds, r.At = true, false, 0, k.now
	r.Plan(k.drainOrder(c, m.GetTry()))
}

// drainOrder returns where the client tries its luck: the addresses that the node names, in their order, then all
// others, and the node itself last.
func (k *links) drainOrder(c *Conn, try []string) []string {
	r := &k.router
	known := slices.Concat(r.Servers, r.Learnt)
	var order []string
	for _, address := range try {
		if address != c.Server && slices.Contains(known, address) && !slices.Contains(order, address) {
			order = append(order, address)
		}
	}
	if r.Spread != nil {
		r.Spread(order)
	}
	rest := slices.DeleteFunc(known, func(s string) bool { return s == c.Server || slices.Contains(order, s) })
	k.cfg.Jitter.Shuffle(rest)
	return append(append(order, rest...), c.Server)
}

// avoid has the client try the node of c last for a while, and learn where to go instead.
func (k *links) avoid(c *Conn, try []string) {
	if !k.cfg.OnlyServers {
		k.router.Learn(try)
	}
	k.router.Avoid(c.Server, k.now.Add(avoidFor))
}

// drainingEnded handles the news that the node of c stays. A client that has not gone stays too.
func (k *links) drainingEnded(c *Conn) {
	k.router.Avoid(c.Server, time.Time{})
	if c != k.cur || !errors.Is(c.failing, session.ErrDraining) {
		return
	}
	if k.next != nil && !k.next.window.PutsOff() {
		return // another node is about to serve
	}
	c.failing, k.router.Fresh = nil, true
	k.stay()
}

// refusedByDrained takes the word of a node that takes no sessions because it is being drained.
func (k *links) refusedByDrained(c *Conn, err error) {
	if drains, ok := errors.AsType[*session.DrainingError](err); ok {
		k.avoid(c, drains.Try)
	}
}
