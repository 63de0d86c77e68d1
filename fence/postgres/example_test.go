//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"holdfast/fence"
)

// A row keeps the newest token beside the protected data. One statement checks and writes: PostgreSQL evaluates the row
// as the previous statement has left it. A token is positive as a signed number too, so it fits into a bigint.
func Example() {
	ctx, db := context.Background(), database()
	if _, err := db.ExecContext(ctx, `
		DROP TABLE IF EXISTS accounts;
		CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
		INSERT INTO accounts VALUES ('alice', 100)`); err != nil {
		fmt.Println(err)
		return
	}
	set := func(t fence.Token, balance int64) error {
		done, err := db.ExecContext(ctx,
			`UPDATE accounts SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2`, "alice", int64(t), balance)
		if err != nil {
			return err
		}
		if rows, err := done.RowsAffected(); err != nil || rows == 1 {
			return err
		}
		var newest int64
		if err := db.QueryRowContext(ctx, `SELECT fence FROM accounts WHERE id = $1`, "alice").Scan(&newest); err != nil {
			return err
		}
		return &fence.StaleError{Resource: "alice", Token: t, Newest: fence.Token(newest)}
	}

	former, present := fence.Token(1024<<16|3), fence.Token(1030<<16|1)
	fmt.Println(set(former, 90))
	fmt.Println(set(present, 80))
	fmt.Println(set(former, 70)) // the former holder was paused meanwhile
	// Output:
	// <nil>
	// <nil>
	// write "alice": fence 1024.3 is older than 1030.1: the lock has another holder now
}

// A transaction that changes several rows under a lock begins with one statement that admits the token: see admit. The
// row that keeps the token stays locked until the transaction is over.
func Example_transaction() {
	ctx, db := context.Background(), database()
	if _, err := db.ExecContext(ctx, fences+accounts); err != nil {
		fmt.Println(err)
		return
	}
	pay := func(t fence.Token, amount int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := admit(ctx, tx, "/locks/ledger", t); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if _, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance - $1`, amount); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}

	former, present := fence.Token(1024<<16|3), fence.Token(1030<<16|1)
	fmt.Println(pay(former, 10))
	fmt.Println(pay(present, 10))
	fmt.Println(pay(former, 10))
	var balance int64
	fmt.Println(db.QueryRowContext(ctx, `SELECT balance FROM accounts`).Scan(&balance), balance)
	// Output:
	// <nil>
	// <nil>
	// write "/locks/ledger": fence 1024.3 is older than 1030.1: the lock has another holder now
	// <nil> 80
}
