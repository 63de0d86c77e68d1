package secure

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// StoreConfig configures a [Store].
type StoreConfig struct {
	Files Files
	// Check refuses material that cannot work; nil accepts all readable material. now is the time of the check.
	Check func(m *Material, now time.Time) error
	// Every is the longest time until changed files are loaded; default 10 s. Run checks twice in that time.
	Every time.Duration
	// Clock is the wall clock; nil is time.Now.
	Clock func() time.Time
	// Logger may be nil.
	Logger hclog.Logger
}

const (
	defaultEvery = 10 * time.Second
	// againEvery is the interval between two warnings about a certificate's end.
	againEvery = 24 * time.Hour
	// maxAhead is the longest time before a certificate's end at which warnings begin; for a short-lived certificate
	// they begin in its last third.
	maxAhead = 30 * 24 * time.Hour
)

// Store keeps the material of one process, and reloads it when its files change, completely or not at all. It knows the
// connections that use the material, and closes those whose certificates it does not accept after a reload. Safe for
// concurrent use.
type Store struct {
	cfg     StoreConfig
	current atomic.Pointer[Material]

	reloads, failures, closed atomic.Uint64

	mu sync.Mutex
	// loaded are the contents of current, refused the contents that were refused last, and seen the contents at the
	// last check of Run. guarded by mu
	loaded, refused, seen contents
	// problem is why the last check could not load the files; empty if it could. guarded by mu
	problem   string
	checkedAt time.Time // guarded by mu
	warned    time.Time // guarded by mu
	// live are the connections with a verified certificate of the other side. guarded by mu
	live map[*Conn]struct{}
}

// Stats are gauges and counters of a store.
type Stats struct {
	// Reloads counts reloads, Failures refused files, Closed connections that a reload closed.
	Reloads, Failures, Closed uint64
	// Expires is the end of the own certificate, CAExpires the end of the first CA to expire; zero for none.
	Expires, CAExpires time.Time
}

// Open loads the files. Its error names the file.
func Open(cfg StoreConfig) (*Store, error) {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	s := &Store{cfg: cfg, live: map[*Conn]struct{}{}}
	read, err := cfg.Files.read()
	if err != nil {
		return nil, err
	}
	m, err := s.parse(read)
	if err != nil {
		return nil, err
	}
	s.loaded, s.checkedAt = read, cfg.Clock()
	s.current.Store(m)
	return s, nil
}

func (s *Store) parse(read contents) (*Material, error) {
	m, err := s.cfg.Files.parse(read)
	if err != nil {
		return nil, err
	}
	if s.cfg.Check != nil {
		err = s.cfg.Check(m, s.cfg.Clock())
	}
	return m, err
}

// Current returns the newest material.
func (s *Store) Current() *Material { return s.current.Load() }

// Run checks the files from time to time, until ctx ends, and warns before certificates expire.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(s.cfg.Every/2, 1))
	defer ticker.Stop()
	for {
		s.warn()
		select {
		case <-ticker.C:
			s.reloadIfStable()
		case <-ctx.Done():
			return nil
		}
	}
}

// reloadIfStable is Reload, but only after two checks in a row have found the same contents: a bundle may be written
// one certificate after the other and be readable after each, and connections of the CAs that are still missing would
// be closed.
func (s *Store) reloadIfStable() {
	read, err := s.cfg.Files.read()
	s.mu.Lock()
	steady := err != nil || read.equal(s.loaded) || read.equal(s.seen)
	s.seen = read
	s.mu.Unlock()
	if steady {
		s.install(read, err)
	}
}

// refreshEvery is the shortest time between two reads of the files by Refresh.
const refreshEvery = time.Second

// Refresh is Reload, if the last check is long enough ago. It is for processes that do not call Run.
func (s *Store) Refresh() {
	s.mu.Lock()
	now := s.cfg.Clock()
	if age := now.Sub(s.checkedAt); age >= 0 && age < refreshEvery {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.Reload()
}

// Reload loads the files if they have changed. Unusable files are logged once, and the former material stays in use
// until the files are usable: a certificate may be replaced before its key. Each check tries the files again, because
// Check may accept later what it refuses now, such as a certificate that becomes valid in a minute. Reload closes
// connections whose certificates are no longer accepted.
func (s *Store) Reload() { s.install(s.cfg.Files.read()) }

// install loads the contents of the files, or records why they are unusable.
func (s *Store) install(read contents, err error) {
	now := s.cfg.Clock()
	s.mu.Lock()
	s.checkedAt = now
	same := err == nil && read.equal(s.loaded)
	if same {
		s.problem = ""
	}
	s.mu.Unlock()
	if same {
		return
	}
	var m *Material
	if err == nil {
		m, err = s.parse(read)
	}
	if err != nil {
		s.refuse(read, err)
		return
	}
	s.mu.Lock()
	s.loaded, s.problem, s.warned = read, "", time.Time{}
	s.mu.Unlock()
	s.current.Store(m)
	s.reloads.Add(1)
	closed := s.recheck(m, now)
	s.cfg.Logger.Info("certificates reloaded", "certificate", describe(m.leaf()), "cas", len(m.roots),
		"connections_closed", closed)
}

// refuse records unusable files; read is empty when they could not be read. It logs each reason once, and the same
// files once, because the text of a reason may contain the time.
func (s *Store) refuse(read contents, why error) {
	s.mu.Lock()
	again := s.problem == why.Error() ||
		s.problem != "" && read.equal(s.refused) && !read.equal(contents{})
	s.refused, s.problem = read, why.Error()
	s.mu.Unlock()
	if again {
		return
	}
	s.failures.Add(1)
	s.cfg.Logger.Error("certificates not reloaded: the former ones stay in use", "error", why)
}

// recheck closes the connections whose certificates m does not accept, and returns their number.
func (s *Store) recheck(m *Material, now time.Time) (closed int) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.live))
	s.mu.Unlock()
	for _, c := range all {
		if err := c.accepted(m, now); err != nil {
			closed++
			s.closed.Add(1)
			s.cfg.Logger.Warn("connection closed: its certificate is no longer accepted", "remote",
				c.RemoteAddr().String(), "error", err)
			c.cut()
		}
	}
	return closed
}

// add lists a connection with a verified certificate. If the material that verified it has been replaced meanwhile, add
// checks the certificate again.
func (s *Store) add(c *Conn, by *Material) error {
	s.mu.Lock()
	s.live[c] = struct{}{}
	s.mu.Unlock()
	if now := s.current.Load(); now != by {
		return c.accepted(now, s.cfg.Clock())
	}
	return nil
}

func (s *Store) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
}

// maxWarnings bounds the certificates in the warnings of one check; the own certificate comes first.
const maxWarnings = 10

// warn logs once a day which certificates expire soon, or have expired. Each has its own line: a former CA that is
// still in its file must not hide the end of the own certificate.
func (s *Store) warn() {
	m, now := s.Current(), s.cfg.Clock()
	var ending []*x509.Certificate
	for _, c := range slices.Concat([]*x509.Certificate{m.leaf()}, m.roots, m.clientRoots) {
		if c == nil || slices.ContainsFunc(ending, c.Equal) {
			continue
		}
		if c.NotAfter.Sub(now) < min(maxAhead, c.NotAfter.Sub(c.NotBefore)/3) {
			ending = append(ending, c)
		}
	}
	s.mu.Lock()
	due := len(ending) > 0 && (s.warned.IsZero() || now.Sub(s.warned) >= againEvery)
	if due {
		s.warned = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	for _, c := range ending[:min(len(ending), maxWarnings)] {
		if ends := c.NotAfter.UTC().Format(time.RFC3339); now.After(c.NotAfter) {
			s.cfg.Logger.Error("a certificate has expired: new connections with it are refused; renew it",
				"certificate", describe(c), "expired", ends)
		} else {
			s.cfg.Logger.Warn("a certificate expires soon: renew it", "certificate", describe(c), "expires", ends)
		}
	}
}

// Stats returns the present gauges and counters.
func (s *Store) Stats() Stats {
	m := s.Current()
	st := Stats{Reloads: s.reloads.Load(), Failures: s.failures.Load(), Closed: s.closed.Load()}
	st.Expires = expires(m.leaf())
	st.CAExpires = expires(slices.Concat(m.roots, m.clientRoots)...)
	return st
}

// LoadError returns why the files on disk are not in use; nil when they are.
func (s *Store) LoadError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == "" {
		return nil
	}
	return errors.New(s.problem)
}

// describe names a certificate's owner and end; empty for nil.
func describe(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s, until %s", owner(c), c.NotAfter.UTC().Format(time.RFC3339))
}
