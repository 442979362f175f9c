// Package notify posts a message to a URL that somebody else named.
//
// Messages are signed as Standard Webhooks says (https://www.standardwebhooks.com),
// so that receivers check them with any of its libraries; a [Hook] also speaks as
// the chats' own bots do. Since the URL is not
// ours, a [Sender] goes nowhere that its process can reach and the Internet cannot:
// every address is checked when it is dialled, after its name was looked up, and
// no redirect is followed. What a receiver answers is not repeated anywhere, but
// for its status.
package notify
