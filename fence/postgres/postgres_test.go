//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package postgres_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"holdfast/fence"
	"holdfast/test/skip"
)

// TestMain runs the tests. Without PostgreSQL it leaves out the examples; TestPostgreSQLIsHere reports that.
func TestMain(m *testing.M) {
	flag.Parse()
	if _, err := programs(); err != nil {
		pattern := "^Example"
		if already := flag.Lookup("test.skip").Value.String(); already != "" {
			pattern += "|" + already
		}
		if err := flag.Set("test.skip", pattern); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if err := endServer(); err != nil {
		fmt.Fprintln(os.Stderr, "end PostgreSQL:", err)
		code = 1
	}
	os.Exit(code)
}

// programs returns the directory of PostgreSQL's programs.
func programs() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb), nil
	}
	debian, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(debian) == 0 {
		err = errors.New("there is no PostgreSQL here: no initdb in PATH or below /usr/lib/postgresql")
	}
	if err != nil {
		return "", err
	}
	return filepath.Dir(debian[len(debian)-1]), nil
}

// server is a PostgreSQL server of the tests' own, in a directory of its own, without TCP.
type server struct {
	dir   string
	shell *exec.Cmd
	// stdin ends the server when it is closed, also by the end of this process.
	stdin io.Closer
	db    *sql.DB
}

var (
	theServer   = sync.OnceValues(startServer)
	serverStart sync.Mutex
	running     *server // guarded by serverStart
)

// serve initialises a database, runs it until standard input ends, and removes it.
const serve = `
if ! initdb -D "$DIR/data" -A trust -N -U holdfast -E UTF8 --locale=C >"$DIR/initdb.log" 2>&1; then
	cat "$DIR/initdb.log" >&2
	rm -rf "$DIR"
	exit 1
fi
postgres -D "$DIR/data" -k "$DIR" -c listen_addresses= -c fsync=off -c deadlock_timeout=10s &
read -r ends
kill -INT $!
wait $!
rm -rf "$DIR"
`

// startServer starts the server and waits until it accepts connections. PostgreSQL refuses to run as root, so for root
// it runs as the user postgres.
func startServer() (*server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-fence")
	if err != nil {
		return nil, err
	}
	shell := exec.Command("sh", "-c", serve)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "DIR="+dir, "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C")
	if os.Getuid() == 0 {
		if shell.SysProcAttr, err = as("postgres", dir); err != nil {
			return nil, err
		}
	}
	stdin, stdinErr := shell.StdinPipe()
	stderr, stderrErr := shell.StderrPipe()
	if err = errors.Join(stdinErr, stderrErr, shell.Start()); err != nil {
		return nil, err
	}
	log := bufio.NewScanner(stderr)
	var said strings.Builder
	for log.Scan() && !strings.Contains(log.Text(), "ready to accept connections") {
		fmt.Fprintln(&said, log.Text())
	}
	if log.Err() != nil || log.Text() == "" {
		return nil, fmt.Errorf("PostgreSQL does not start: %w: %s", errors.Join(log.Err(), shell.Wait()), &said)
	}
	go io.Copy(io.Discard, stderr) // it ends with the server
	db, err := sql.Open("pgx", "user=holdfast dbname=postgres host="+dir)
	serverStart.Lock()
	defer serverStart.Unlock()
	running = &server{dir: dir, shell: shell, stdin: stdin, db: db}
	return running, err
}

// as gives dir to a user, and returns how to run a program as that user.
func as(name, dir string) (*syscall.SysProcAttr, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// endServer ends the server if it runs.
func endServer() error {
	serverStart.Lock()
	defer serverStart.Unlock()
	if running == nil {
		return nil
	}
	err := errors.Join(running.db.Close(), running.stdin.Close(), running.shell.Wait())
	if _, there := os.Stat(running.dir); there == nil {
		err = errors.Join(err, fmt.Errorf("%s is left", running.dir))
	}
	return err
}

// database returns the tests' database. An example that needs it runs only where PostgreSQL is (TestMain).
func database() *sql.DB {
	s, err := theServer()
	if err != nil {
		panic(err)
	}
	return s.db
}

// tested returns the tests' database after setup.
func tested(t *testing.T, setup string) *sql.DB {
	t.Helper()
	if _, err := programs(); err != nil {
		skip.Test(t, err)
	}
	db := database()
	if _, err := db.ExecContext(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestPostgreSQLIsHere says when examples did not run.
func TestPostgreSQLIsHere(t *testing.T) {
	var version string
	if err := tested(t, "").QueryRowContext(t.Context(), "SHOW server_version").Scan(&version); err != nil {
		t.Error(err)
	}
	t.Log("PostgreSQL", version)
}

// setBalance is the statement of the example of a row.
const setBalance = `UPDATE accounts SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2`

const accounts = `
DROP TABLE IF EXISTS accounts;
CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
INSERT INTO accounts VALUES ('alice', 100)`

// TestARowIsCheckedAsItIsWritten: a statement of a former holder that waits for the row's lock is judged by the row as
// the new holder leaves it. At a higher level of isolation it fails altogether.
func TestARowIsCheckedAsItIsWritten(t *testing.T) {
	for level, want := range map[sql.IsolationLevel]string{
		sql.LevelReadCommitted: "", sql.LevelRepeatableRead: "40001", sql.LevelSerializable: "40001",
	} {
		ctx := t.Context()
		db := tested(t, accounts)
		newer, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newer.ExecContext(ctx, setBalance, "alice", 9, 90); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			rows int64
			err  error
		}
		late := make(chan outcome, 1)
		go func() {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				late <- outcome{err: err}
				return
			}
			done, err := tx.ExecContext(ctx, setBalance, "alice", 5, 50)
			if err != nil {
				late <- outcome{err: errors.Join(err, tx.Rollback())}
				return
			}
			rows, err := done.RowsAffected()
			late <- outcome{rows, errors.Join(err, tx.Commit())}
		}()
		waitForALock(t, db)
		if err := newer.Commit(); err != nil {
			t.Fatal(err)
		}
		got, code := <-late, ""
		if failed, ok := errors.AsType[*pgconn.PgError](got.err); ok {
			code = failed.Code
		}
		if got.rows != 0 || code != want || want == "" && got.err != nil {
			t.Errorf("%v: %d rows, %v, want error %q", level, got.rows, got.err, want)
		}
		var balance, newest int64
		if err := db.QueryRowContext(ctx, `SELECT balance, fence FROM accounts`).Scan(&balance, &newest); err != nil ||
			balance != 90 || newest != 9 {
			t.Errorf("%v: balance %d of %d, %v", level, balance, newest, err)
		}
	}
}

// waitForALock waits until a statement waits for a lock of another transaction.
func waitForALock(t *testing.T, db *sql.DB) {
	t.Helper()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for waiting := 0; waiting == 0; {
		if err := db.QueryRowContext(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		<-again.C
	}
}

// TestRowsOfManyWriters: the tokens of the writes that a row accepts never fall, and the row ends with the newest.
func TestRowsOfManyWriters(t *testing.T) {
	const writers, writes = 8, 50
	db := tested(t, accounts+`;
DROP TABLE IF EXISTS writes;
CREATE TABLE writes (n bigserial PRIMARY KEY, fence bigint NOT NULL)`)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range writes {
				if _, err := db.ExecContext(t.Context(), `WITH done AS (`+setBalance+` RETURNING fence)
INSERT INTO writes (fence) SELECT fence FROM done`, "alice", 1+n+(i*37+n*11)%30, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var taken, falls, newest, kept int64
	if err := db.QueryRowContext(t.Context(), `
SELECT count(*), count(*) FILTER (WHERE fence < before), max(fence), (SELECT fence FROM accounts)
FROM (SELECT fence, lag(fence) OVER (ORDER BY n) AS before FROM writes) AS each`).
		Scan(&taken, &falls, &newest, &kept); err != nil {
		t.Fatal(err)
	}
	if falls != 0 || newest != kept || taken == 0 || taken == writers*writes {
		t.Errorf("%d of %d writes taken; tokens fall %d times; the newest is %d, the row has %d", taken, writers*writes,
			falls, newest, kept)
	}
}

// TestATransactionOfAFormerHolder: the first statement of a transaction admits its token for all later statements. A
// newer transaction waits until an older transaction is over, and an older transaction is refused.
func TestATransactionOfAFormerHolder(t *testing.T) {
	ctx := t.Context()
	db := tested(t, fences)
	older, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err = admit(ctx, older, "/locks/ledger", 5); err != nil {
		t.Fatal(err)
	}
	newer := make(chan error, 1)
	go func() {
		tx, failed := db.BeginTx(ctx, nil)
		if failed == nil {
			failed = errors.Join(admit(ctx, tx, "/locks/ledger", 9), tx.Commit())
		}
		newer <- failed
	}()
	waitForALock(t, db)
	if err = older.Commit(); err != nil {
		t.Fatal(err)
	}
	if err = <-newer; err != nil {
		t.Fatal(err)
	}
	late, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := admit(ctx, late, "/locks/ledger", 5); !stale(err, 5, 9) {
		t.Errorf("the former holder: %v", err)
	}
	if err := late.Rollback(); err != nil {
		t.Error(err)
	}
}

// fences is the table of admit.
const fences = `
DROP TABLE IF EXISTS fences;
CREATE TABLE fences (lock text PRIMARY KEY, token bigint NOT NULL);`

// admit starts a transaction that writes under a lock, whatever it writes. Until the transaction is over, other
// transactions with a token of this lock wait here.
func admit(ctx context.Context, tx *sql.Tx, lock string, t fence.Token) error {
	done, err := tx.ExecContext(ctx, `
INSERT INTO fences VALUES ($1, $2)
ON CONFLICT (lock) DO UPDATE SET token = excluded.token WHERE fences.token <= excluded.token`, lock, int64(t))
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 1 {
		return err
	}
	var newest int64
	if err := tx.QueryRowContext(ctx, `SELECT token FROM fences WHERE lock = $1`, lock).Scan(&newest); err != nil {
		return err
	}
	return &fence.StaleError{Resource: lock, Token: t, Newest: fence.Token(newest)}
}

// stale reports whether err refuses token because of newest.
func stale(err error, token, newest fence.Token) bool {
	refused, ok := errors.AsType[*fence.StaleError](err)
	return ok && refused.Token == token && refused.Newest == newest
}
