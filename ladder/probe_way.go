package ladder

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"nightshift/config"
	"nightshift/provider"
)

// probeBody is the short prompt: a purchase, and so the smallest one.
var probeBody = json.RawMessage(`{"messages":[{"role":"user","content":"ping"}],"max_tokens":1}`)

// HealthChecker is a [Caller] that can also get a path of its provider's host.
type HealthChecker interface {
	// Health returns a 2xx, or a *provider.Error.
	Health(ctx context.Context, path string, timeout time.Duration) (status int, err error)
}

// way is how one model is probed: by a call, or by a path to get.
type way struct {
	caller  Caller
	request provider.Request
	price   *config.Price

	path   string        // "" where the probe is a call
	health HealthChecker // with path
}

// newWay is what the model's configuration names, else the short prompt.
func newWay(m config.Model, c Caller) (way, error) {
	w := way{caller: c, price: m.Price, path: m.Probe.Get}
	w.request = provider.Request{Endpoint: provider.ChatCompletions, Model: m.Name, Body: probeBody, Timeout: silence(&m)}
	if w.path != "" {
		w.price = nil // no call
		var can bool
		if w.health, can = c.(HealthChecker); !can {
			return w, fmt.Errorf("probe model %s by %s: its adapter cannot get a path", m.Key, w.path)
		}
		return w, nil
	}
	if len(m.Probe.Body) > 0 {
		body, err := json.Marshal(m.Probe.Body)
		if err != nil {
			return w, fmt.Errorf("encode probe of model %s: %w", m.Key, err)
		}
		w.request.Body = body
	}
	return w, nil
}

// most is about what the probe costs, at most; exit what became of it.
func (w way) most() provider.USD {
	return cost(w.price, provider.Usage{InputTokens: probeTokens, OutputTokens: probeTokens})
}

func (w way) exit(took time.Duration, ans provider.Answer, e *provider.Error) Exit {
	x := Exit{Result: result("", took, ans, e)}
	x.USD = newCall("", w.price, time.Time{}, took, ans, e).Cost
	return x
}

// send makes the call or gets the path; a panic of the adapter is its error.
func (w way) send(ctx context.Context) (provider.Answer, error) {
	if w.path == "" {
		return invoke(ctx, w.caller, w.request)
	}
	return w.get(ctx)
}

func (w way) get(ctx context.Context) (ans provider.Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	status, err := w.health.Health(ctx, w.path, w.request.Timeout)
	return provider.Answer{StatusCode: status}, err
}

// String names the probe without its content.
func (w way) String() string {
	switch {
	case w.path != "":
		return "GET " + w.path
	case string(w.request.Body) == string(probeBody):
		return "short prompt"
	}
	return "body of its own"
}
