package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/learner"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/transport/clientport"
)

// health decides whether the node serves, and says why it does not. Safe for concurrent use.
type health struct {
	// room says what is refused for want of room.
	room      func() string
	logger    hclog.Logger
	watchdog  *watchdog.Watchdog
	roster    *roster
	admission *admission
	replica   *replica
	security  *security
	// aside returns the folder of an older copy that was set aside, empty when there is none.
	aside func() string
	// drain takes the node out of service.
	drain   *drain
	freezes *freezes
	// news wakes watch: the node has stalled, or goes on.
	news chan struct{}
	// ready is closed once the node has served for the first time.
	ready chan struct{}
}

// check returns nil when the node serves, or why it does not. It asks the watchdog first: a node that stalls must not
// be asked for anything else, because its state may be locked.
func (h *health) check() error {
	if err := h.watchdog.Check(); err != nil {
		return err
	}
	if err := h.admission.check(); err != nil {
		return err
	}
	if err := h.drain.ready(); err != nil {
		return h.explain(err)
	}
	if !h.admission.admitted() || !h.roster.observes() && !h.roster.votes() {
		return learner.ErrNoVote
	}
	if h.drain.on() {
		return session.ErrDraining
	}
	return nil
}

// explain adds to ErrNoLeader what may be the cause: too many nodes on new data directories, or differences between
// members and peers.
func (h *health) explain(err error) error {
	if !errors.Is(err, session.ErrNoLeader) {
		return err
	}
	if h.removed() {
		return errRemoved
	}
	if todo := h.admission.left(); todo != "" {
		return fmt.Errorf("%w; %s", err, todo)
	}
	if found := h.roster.drift(); len(found) > 0 {
		return fmt.Errorf("%w; %s", err, strings.Join(found, "; "))
	}
	return err
}

// errRemoved says that this node is no part of its cluster any more.
var errRemoved = errors.New("this node was removed from its cluster for good: end it; a new node needs a number that " +
	"no node has had, and an empty data directory")

// removed reports whether this node was removed from its cluster, by its own log or by the word of another node.
func (h *health) removed() bool { return h.roster.was(h.roster.self) || h.admission.removed.Load() }

// part drains a node that is to leave its cluster, or has left it (J3).
func (h *health) part() {
	removed := h.removed()
	if w, member := h.roster.wish(); (removed || member && w == wishLeave) && !h.drain.on() {
		if removed {
			h.logger.Error("this node was removed from its cluster for good", "node", h.roster.self)
		}
		h.drain.begin()
	}
	h.admission.drained.Store(h.drain.isOver())
}

// warning says what an operator should look after although the node serves. It is empty when there is nothing.
func (h *health) warning() string {
	var all []string
	if text := h.freezes.warning(); text != "" {
		all = append(all, text)
	}
	if err := h.replica.warning(); err != nil {
		all = append(all, err.Error())
	}
	if text := h.security.warning(); text != "" {
		all = append(all, text)
	}
	if folder := h.aside(); folder != "" {
		all = append(all, "an older copy of the data directory was put back, and is in "+folder+": find out who put it "+
			"back, and remove it once the node votes")
	}
	if text := h.room(); text != "" {
		all = append(all, text)
	}
	if differ := h.admission.agreement.drift(); len(differ) > 0 {
		all = append(all, "settings differ: "+strings.Join(differ, "; "))
	}
	return strings.Join(all, "; ")
}

// again has watch look again. It does not wait.
func (h *health) again() { signal(h.news) }

// watch tells the health service of the client port whether the node serves, until ctx ends: at each heartbeat interval
// while it serves, more often while it does not, and when the node stalls or steps out. It also has the roster look
// whether this node is still a member, and warns when the room for sessions runs out, or
// the cluster is frozen.
func (h *health) watch(ctx context.Context, pulse session.Pulse, interval time.Duration, client *clientport.Server,
	rooms []fullness,
) error {
	every, first := interval, true
	ticker := pulse.Ticker(every)
	defer ticker.Stop()
	for {
		for i := range rooms {
			rooms[i].look(h.logger)
		}
		h.freezes.remind()
		h.roster.look()
		h.part()
		ok := h.check() == nil
		client.SetServing("", ok)
		if ok && first {
			first = false
			close(h.ready)
		}
		next := interval
		if !ok {
			next = interval / retryFraction
		}
		if next != every {
			every = next
			ticker.Reset(every)
		}
		select {
		case <-ticker.C:
		case <-h.news:
		case <-ctx.Done():
			return nil
		}
	}
}
