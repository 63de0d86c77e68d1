package client

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/session"
)

// Why a node is left without any fault of its own.
var (
	errRebalanced = errors.New("other servers were added: this one has its share of clients without this one")
	errRemoved    = errors.New("server was removed from the list")
)

// UpdateServers replaces the configured servers, at most [MaxServers] in the form of [Config].Endpoints, while the client runs. Clients
// that do so with the same list end up evenly spread, without knowing of each other, and as few of them move as that
// takes: of 3 servers becoming 5, 40 % of the clients move, all to the new ones; of 5 becoming 3, the clients of the two
// that go (ZooKeeper's section 10.5 of rules; see planUpdate). A client that moves is served by its former node until
// another one serves it. One that is not connected looks for a node among the new servers at once. Addresses learnt from
// nodes stay, but for those of removed servers. The error is a [session.FieldError] or [session.ErrClosed]. Of calls at the
// same time one takes effect last.
func (c *Client) UpdateServers(servers []string) error {
	if err := checkEndpoints(servers); err != nil {
		return fmt.Errorf("update servers: %w", err)
	}
	servers = slices.Clone(servers)
	c.mu.Lock()
	over, l := c.closed, c.loop
	c.servers = servers
	c.mu.Unlock()
	if over || l != nil && !l.post(func() { l.updateServers(servers) }) {
		return fmt.Errorf("update servers: %w", session.ErrClosed)
	}
	return nil
}

// update says what a change of the server list means for one client.
type update struct {
	// leave is the probability of leaving the present server; 1 if that has gone.
	leave float64
	// known are the servers of the new list that were in the former one, added those that were not.
	known, added []string
	// toAdded is the probability of going to one of the added servers first, for a client that leaves.
	toAdded float64
}

// planUpdate decides by the rules of ZooKeeper's reconfiguration (spec section 10.5), S being the number of former servers, o
// that of known and w that of added ones, N = o + w. Each former server has 1/S of all clients, and each present one is to
// have 1/N.
//
//	N >  S, mine stays   leave with 1 - S/N, to an added one    a known one keeps 1/S x S/N = 1/N
//	N >  S, mine goes    leave, to an added one                 the known ones give up more than they need already
//	N <= S, mine stays   stay                                   1/S is at most 1/N
//	N <= S, mine goes    leave, to a known one with             the known ones lack o x (1/N - 1/S), which is
//	                     o x (S-N) / (N x (S-o))                that part of the (S-o)/S that leave
func planUpdate(former, present []string, mine string) update {
	var u update
	for _, s := range present {
		if slices.Contains(former, s) {
			u.known = append(u.known, s)
		} else {
			u.added = append(u.added, s)
		}
	}
	was, is, known := float64(len(former)), float64(len(present)), float64(len(u.known))
	grows, stays := is > was, slices.Contains(present, mine)
	u.toAdded = 1
	switch {
	case stays && grows:
		u.leave = 1 - was/is
	case stays:
	default:
		u.leave = 1
		if !grows && was > known {
			u.toAdded = 1 - known*(was-is)/(is*(was-known))
		}
	}
	return u
}

// order returns the servers in the order in which a client that leaves tries them: for each, one of the added is next with
// the probability toAdded, one of the known otherwise; when either have run out, the others follow.
func (u update) order(d *dice) []string {
	known, added := slices.Clone(u.known), slices.Clone(u.added)
	d.shuffle(known)
	d.shuffle(added)
	all := make([]string, 0, len(known)+len(added))
	for len(known) > 0 && len(added) > 0 {
		from := &known
		if d.draw() < u.toAdded { // not <=: a draw of 0 must not beat a probability of 0
			from = &added
		}
		all = append(all, (*from)[0])
		*from = (*from)[1:]
	}
	return slices.Concat(all, known, added)
}

// leaves reports the draw of a client.
func (u update) leaves(d *dice) bool { return d.draw() < u.leave }

// updateServers takes a new list. While a client is on its way because of a former one, its server is the one it goes to.
func (l *loop) updateServers(servers []string) {
	m := &l.mover
	former := m.servers
	m.servers = servers
	m.learnt = slices.DeleteFunc(m.learnt, func(a string) bool { return slices.Contains(former, a) || slices.Contains(servers, a) })
	if l.cur == nil {
		l.endMove()
		m.begun, m.asked, m.at = false, 0, l.now // the next step begins a move: a client without a connection always does
		m.moving = len(l.sessions) > 0 || len(l.opens) > 0
		return
	}
	mine := l.goesTo()
	u := planUpdate(former, servers, mine)
	local, _ := l.locals()
	stays := local && slices.Contains(servers, mine) // local sessions cannot go along
	if !u.leaves(l.dice) || stays {
		m.left = slices.DeleteFunc(m.left, func(t target) bool {
			return !slices.Contains(servers, t.server) && !slices.Contains(m.learnt, t.server)
		})
		return
	}
	l.endMove()
	l.cur.failing = errRemoved
	order := u.order(l.dice)
	if slices.Contains(servers, l.cur.server) {
		if l.cur.failing = errRebalanced; l.readOnly(l.cur) {
			l.cur.failing = session.ErrReadOnly // there is no going back to where it was well
		}
		order = slices.DeleteFunc(order, func(s string) bool { return s == l.cur.server })
	}
	l.logger.Info("looking for another node", "address", l.cur.address, "error", l.cur.failing)
	m.moving, m.fresh, m.rounds, m.at = true, false, 0, l.now
	m.plan(order)
}

// goesTo returns the server that the client is at, or goes to because of a change of the list.
func (l *loop) goesTo() string {
	switch m := &l.mover; {
	case !l.cur.dismissed():
		return l.cur.server
	case l.next != nil:
		return l.next.server
	case len(l.racing) > 0:
		return l.racing[0].server
	case len(m.left) > 0:
		return m.left[0].server
	default:
		return l.cur.server
	}
}

// dismissed reports that the client leaves c although c may serve well.
func (c *conn) dismissed() bool {
	return errors.Is(c.failing, errRebalanced) || errors.Is(c.failing, errRemoved)
}
