package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nightshift/breaker"
)

var gpt = breaker.Key{Provider: "openai", Model: "openai/gpt-4o"}

func Example() {
	ctx := context.Background()
	store := breaker.NewMemory(func(breaker.Key) breaker.Settings {
		return breaker.Settings{Window: 5, Failures: 3}
	}, nil)
	for range 4 {
		t, err := store.Admit(ctx, gpt)
		var open *breaker.OpenError
		if errors.As(err, &open) {
			fmt.Printf("%s of the %s: wait %s\n", open.State, open.Scope, open.RetryAfter.Round(time.Second))
			continue
		}
		err = store.Report(ctx, t, breaker.Report{Outcome: breaker.Failure, Reason: "status 503"})
		fmt.Println("called", err)
	}
	// Output:
	// called <nil>
	// called <nil>
	// called <nil>
	// open of the model: wait 1m10s
}

func ExampleDo() {
	store := breaker.NewMemory(func(breaker.Key) breaker.Settings { return breaker.Settings{} }, nil)
	var answer string
	err := breaker.Do(context.Background(), store, gpt, func(context.Context) breaker.Report {
		answer = "42"
		return breaker.Report{Outcome: breaker.Success}
	})
	fmt.Println(answer, err)
	// Output: 42 <nil>
}

// The refused key of one model is every model's of that provider.
func ExampleReport() {
	ctx := context.Background()
	store := breaker.NewMemory(func(breaker.Key) breaker.Settings { return breaker.Settings{} }, nil)
	_ = breaker.Do(ctx, store, gpt, func(context.Context) breaker.Report {
		return breaker.Report{Hard: true, Scope: breaker.ScopeParent, Reason: "status 401"}
	})
	mini := breaker.Key{Provider: "openai", Model: "openai/gpt-4o-mini"}
	_, err := store.Admit(ctx, mini)
	var open *breaker.OpenError
	fmt.Println(errors.As(err, &open), open.Scope, open.Reason)
	// Output: true parent status 401
}

func ExampleMemory_Force() {
	ctx := context.Background()
	store := breaker.NewMemory(func(breaker.Key) breaker.Settings { return breaker.Settings{} }, nil)
	err := store.Force(ctx, gpt, breaker.Force{Action: breaker.ForceOpen, For: time.Hour, By: "anna"})
	list, _ := store.List(ctx, []breaker.Key{gpt})
	fmt.Println(err, list[0].State, list[0].Reason)
	// Output: <nil> open held open by anna for 1h0m0s
}
