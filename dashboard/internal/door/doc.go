// Package door is what every request to the dashboard passes: who may see it,
// and who may change something.
//
//	request ─▶ headers ─▶ host ─▶ base path ─▶ method ─▶ room ─▶ origin ─▶ login ─▶ CSRF token ─▶ the pages
//	                      403      404         405       503     403       401      403
//
// Without a token everyone is let in, and so only this machine may ask: the
// address is loopback, the Host header names it (a page of another site can make
// its own name resolve to 127.0.0.1), and no proxy says that it asks for
// another machine.
//
// With a token a person logs in at /login and carries a cookie from then on; a
// script sends "Authorization: Bearer TOKEN". The cookie is not the token: it is
// a number and an end, signed with a key that is derived from the token. So
// every process with the same token knows it, a restart forgets nobody, and a new
// token ends all sessions.
//
// A change (every method but GET and HEAD) needs the token of its session from
// [Door.Token] besides, in the form field "csrf" or in the header X-CSRF-Token,
// or X-XSRF-TOKEN, which axios sends by itself. Bearer requests need none: no
// browser adds that header on behalf of another site.
//
// The pages write every link with [Door.Path], put Token into every form, name
// what they change with [Audit], and call [Extend] in a stream before each write.
// They see paths without the base path.
//
// Invariants: nothing compares a secret but in constant time; no secret is in a
// URL, a log, an error or a page; every change is one line of the log.
package door
