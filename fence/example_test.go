package fence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"holdfast/fence"
)

// A guard keeps the newest token in memory, and makes the check and the write one step.
func ExampleGuard() {
	guard, value := fence.NewGuard(1000), ""
	set := func(t fence.Token, to string) error {
		return guard.Do(context.Background(), "/locks/printer", t, func(context.Context) error {
			value = to
			return nil
		})
	}
	former, present := fence.Token(1024<<16|3), fence.Token(1030<<16|1) // Token(stat.Created) of the lock's entry
	fmt.Println(set(former, "one"))
	fmt.Println(set(present, "two"))
	fmt.Println(set(former, "late"))
	fmt.Println(value)
	// Output:
	// <nil>
	// <nil>
	// write "/locks/printer": fence 1024.3 is older than 1030.1: the lock has another holder now
	// two
}

// A service takes the token from a header, and refuses requests of former holders with 412 Precondition Failed.
func ExampleGuard_Handler() {
	// The service: one lock and one account for each path. Only requests that write need a token.
	balances := make(map[string]string)
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		balances[r.URL.Path] = r.URL.Query().Get("balance")
	})
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{name}", fence.NewGuard(1000).Handler(
		func(r *http.Request) string { return r.URL.Path }, pay))
	service := httptest.NewServer(mux)
	defer service.Close()

	// A client: it sends the token of its lock with each write, and stops when it is refused.
	put := func(t fence.Token, balance string) error {
		r, err := http.NewRequest(http.MethodPut, service.URL+"/accounts/alice?balance="+balance, nil)
		if err != nil {
			return err
		}
		fence.SetHeader(r.Header, t)
		answer, err := service.Client().Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return fence.CheckResponse(answer)
	}

	former, present := fence.Token(1024<<16|3), fence.Token(1030<<16|1)
	for _, err := range []error{put(former, "90"), put(present, "80"), put(former, "70")} {
		if err != nil {
			err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), service.URL, "http://service"))
		}
		fmt.Println(err)
	}
	fmt.Println(balances["/accounts/alice"])
	// Output:
	// <nil>
	// <nil>
	// write "http://service/accounts/alice?balance=70": fence 1024.3 is older than 1030.1: the lock has another holder now
	// 80
}
