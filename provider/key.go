package provider

import (
	"context"
	"errors"
	"strings"
)

// readKey asks for the key of a call; nil means that there is none.
func readKey(ctx context.Context, ask func(ctx context.Context) (string, error)) (string, error) {
	if ask == nil {
		return "", nil
	}
	key, err := ask(ctx)
	if err != nil {
		return "", err
	}
	key = strings.TrimSpace(key) // files end in a newline
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the API key holds characters that no header can carry")
	}
	return key, nil
}

// unsent is the error of a call whose key could not be read.
func unsent(w *watch, err error) *Error {
	if e := w.ended(); e != nil {
		return e
	}
	return &Error{Kind: Misconfigured, Scope: ScopeParent, Message: "the API key cannot be read", Err: err}
}
