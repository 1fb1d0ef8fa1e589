-------------------------------- MODULE loop --------------------------------
(***************************************************************************)
(* An agent's turn, as it should be: the independent oracle.               *)
(*                                                                         *)
(* Written by hand, from the design and from what people ask of such a     *)
(* loop; never generated, and never copied from the page of the machine    *)
(* (fsm_loop/core/machine.py).  TLC checks what is promised below, and     *)
(* prints every step of every turn that a small config allows.  These      *)
(* steps are kept in graph.json.gz, and the real machine must take the     *)
(* same ones, edge for edge (fsm_loop/prove/graph.py).  Where the two      *)
(* differ, one is wrong: neither is corrected by copying the other.        *)
(*                                                                         *)
(* What is said is not modelled, only what the decisions need to know of   *)
(* it: each action takes that as its parameters, and TLC tries them all.   *)
(* Time is not modelled: whatever is waited for may come at any moment.    *)
(* An answer to an attempt that was let go is never heard, so it has no    *)
(* action.                                                                 *)
(***************************************************************************)
EXTENDS Naturals, Sequences, TLC

-----------------------------------------------------------------------------
(* The config: how often each thing may be done, and what can happen.      *)

CONSTANTS
    Requests, Iterations, GraceCalls,                  \* the budget, and the one last reply
    ApiRetries, StreamRetries, SlotWaits,              \* one call, tried again
    Continuations, Boosts, EmptyReplies, BadToolRounds,
    Sanitizations, CredentialRefreshes, OutputLimitRepairs, HistoryRepairs,
    MediaRepairs, ParameterRepairs, StreamSwitches, Compactions,
    Chain,                                             \* how many providers stand behind the primary
    Recoveries, Rebuilds,
    Room,                                              \* whether an output limit can still grow
    Replies,                                           \* the kinds of reply that come
    Cuts,                                              \* the ways in which a reply is cut
    Calls,                                             \* how many valid tool calls a reply may hold
    Dear,                                              \* {FALSE}, or {FALSE, TRUE}: may a reply use up tokens, money or time
    Faults,                                            \* the kinds of fault with which a call fails
    StreamFaults,                                      \* those with which a stream drops or stalls
    NotReady,                                          \* those with which a provider is not ready
    Shown,                                             \* what a stream may have brought when it ends early
    Words,                                             \* how many words of the user and the host come at most
    Spoken                                             \* the kinds of word

Cap == [requests |-> Requests, iterations |-> Iterations, grace_calls |-> GraceCalls,
        sanitizations |-> Sanitizations, credential_refreshes |-> CredentialRefreshes,
        output_limit_repairs |-> OutputLimitRepairs, history_repairs |-> HistoryRepairs,
        media_repairs |-> MediaRepairs, parameter_repairs |-> ParameterRepairs,
        stream_switches |-> StreamSwitches, continuations |-> Continuations, boosts |-> Boosts,
        empty_replies |-> EmptyReplies, bad_tool_rounds |-> BadToolRounds, compactions |-> Compactions,
        recoveries |-> Recoveries, fallbacks |-> Chain, rebuilds |-> Rebuilds,
        api_retries |-> ApiRetries, stream_retries |-> StreamRetries, slot_waits |-> SlotWaits]

Counters == DOMAIN Cap

(* Each kind of repair has a counter of its own; a fault that can be       *)
(* repaired is called by that counter.                                     *)
Repairs == {"sanitizations", "credential_refreshes", "output_limit_repairs", "history_repairs",
            "media_repairs", "parameter_repairs", "stream_switches", "compactions"}

(* What refills a counter.                                                 *)
Refilled(occasion) ==
    CASE occasion = "tool round"      -> {"api_retries", "stream_retries", "continuations", "boosts", "empty_replies",
                                          "bad_tool_rounds", "compactions", "recoveries"}
      [] occasion = "provider switch" -> {"api_retries", "stream_retries"}
      [] occasion = "recovery cycle"  -> {"api_retries", "stream_retries", "fallbacks"}
      [] occasion = "cut reply"       -> {"api_retries", "stream_retries"}
      [] occasion = "reply"           -> {"rebuilds"}
      [] occasion = "request out"     -> {"slot_waits"}
      [] occasion = "word"            -> {}

-----------------------------------------------------------------------------
VARIABLES
    state,      \* what the turn waits for
    doing,      \* what is being done outside, whose answer will come: the effect that was started last
    count,      \* how often each counter has been spent since it was last refilled
    overspent,  \* whether tokens, money or time, where the user limits them, are used up
    pending,    \* how many tool calls are still to return
    cut,        \* what of the reply was cut, while that is decided on
    told,       \* whether the answer that is being made has words already, from replies before this one
    spare,      \* whether less reasoning was asked for in this episode
    steer,      \* whether a steer waits for the next request
    words,      \* how many words have come
    outcome     \* how the turn ended

vars == <<state, doing, outcome, count, overspent, pending, cut, told, spare, steer, words>>

States   == {"ready", "calling", "streaming", "truncated", "tool_exec", "backoff", "repairing", "fallback",
             "recovering", "grace", "done"}
Doings   == {"nothing", "slot", "call", "judge", "tools", "timer", "repair", "switch"}
Outcomes == {"none", "completed", "partial", "refused", "exhausted", "interrupted", "failed"}

Left(c) == count[c] < Cap[c]
Budget  == Left("requests") /\ ~overspent

-----------------------------------------------------------------------------
(* What every row does: it counts, it refills, it goes somewhere, and it   *)
(* starts one thing outside.                                              *)

Row(spent, occasions, to, does) ==
    /\ state' = to
    /\ doing' = does
    /\ count' = [c \in Counters |-> IF c \in spent THEN count[c] + 1
                                    ELSE IF \E o \in occasions : c \in Refilled(o) THEN 0
                                    ELSE count[c]]

Goes(spent, occasions, to, does) == Row(spent, occasions, to, does) /\ outcome' = outcome
Ask(spent, occasions)            == Goes(spent, occasions, "calling", "slot")
Switch                           == Goes({"fallbacks"}, {"provider switch"}, "fallback", "switch")
Recover                          == Goes({"recoveries"}, {"recovery cycle"}, "recovering", "timer")
End(how)                         == Row({}, {}, "done", "nothing") /\ outcome' = how
Grace(does)                      == IF Left("grace_calls") THEN Goes({"grace_calls"}, {}, "grace", does)
                                    ELSE End("exhausted")

(* What a row learns beside that.  In grace and in done the answer is no   *)
(* longer being made.                                                      *)
Keeps(what)    == IF state' \in {"grace", "done"} THEN FALSE ELSE what
Same           == told' = Keeps(told) /\ spare' = Keeps(spare)
Unheard        == UNCHANGED <<overspent, pending, cut, steer, words>> /\ Same   \* no more than the row says

-----------------------------------------------------------------------------
(* Faults, by what may be done about them.                                 *)
(*   outage            passes by itself: a server that is down, overloaded *)
(*   outage_late       the same, but the provider asks for too long a wait *)
(*   outage_final      the same, but the provider says not to try again    *)
(*   limited           may be retried, but waiting long does not help      *)
(*   limited_late      the same, but for too long a wait                   *)
(*   malformed         the reply has no shape that can be read             *)
(*   misspoke          the provider cannot read its model's own tool call  *)
(*   refused           this provider will not answer this content          *)
(*   barred            nothing can be done but to ask another provider     *)
(*   hopeless          nothing can be done                                 *)
(*   (a repair)        the request can be changed so that it succeeds      *)

MayRetry(f)  == f \in {"outage", "limited", "malformed"}
FallsBack(f) == f # "hopeless"
WillPass(f)  == f = "outage"    \* what its provider says not to wait for, or for too long, is not waited for at all
Soon(f)      == f \notin {"outage_late", "limited_late"}

Text(shown) == shown \in {"text", "both"}   \* the other two: nothing, or a tool call alone

(* A call came to nothing: what to do, in this order.                      *)
Failed(f, shown) ==
    IF f \in Repairs /\ Left(f)                          THEN Goes({f}, {}, "repairing", "repair") ELSE
    IF f = "misspoke" /\ Left("bad_tool_rounds")         THEN Ask({"bad_tool_rounds"}, {}) ELSE
    IF f = "malformed" /\ Left("fallbacks")              THEN Switch ELSE
    IF MayRetry(f) /\ Left("api_retries")                THEN Goes({"api_retries"}, {}, "backoff", "timer") ELSE
    IF FallsBack(f) /\ Left("fallbacks")                 THEN Switch ELSE
    IF WillPass(f) /\ ~Text(shown) /\ Left("recoveries") THEN Recover ELSE
    IF f = "refused"                                     THEN End("refused") ELSE
    End("failed")

(* Text was shown and then the stream broke: it is kept, and is not asked  *)
(* for again.                                                              *)
KeepText(retry, f) ==
    IF Left(retry)                       THEN Goes({retry}, {}, "truncated", "judge") ELSE
    IF FallsBack(f) /\ Left("fallbacks") THEN Switch ELSE
    Goes({}, {}, "truncated", "judge")

-----------------------------------------------------------------------------
(* The turn begins.                                                        *)

TurnStarted ==
    state = "ready" /\ Ask({}, {}) /\ Unheard

-----------------------------------------------------------------------------
(* The gate: nothing goes out without a slot of the limiter and a budget.  *)

(* A steer that waits is in the request; what was being answered before it *)
(* stands, and another answer is begun.                                    *)
GoesOut ==
    /\ steer' = FALSE
    /\ told' = Keeps(told /\ ~steer) /\ spare' = Keeps(spare)
    /\ UNCHANGED <<overspent, pending, cut, words>>

(* A slot that was granted is used: where the budget is spent, by the last *)
(* request.  That one is not counted, so it refills nothing either.        *)
SlotGranted ==
    /\ doing = "slot"
    /\ IF state = "grace"           THEN Goes({}, {}, "grace", "call") /\ GoesOut ELSE
       IF Budget                    THEN Goes({"requests"}, {"request out"}, "calling", "call") /\ GoesOut ELSE
       IF Left("grace_calls")       THEN Grace("call") /\ GoesOut ELSE
       End("exhausted") /\ Unheard

SlotRefused(f) ==
    /\ doing = "slot"
    /\ IF state = "grace"
       THEN IF Soon(f) /\ Left("slot_waits") THEN Goes({"slot_waits"}, {}, "grace", "timer") ELSE End("exhausted")
       ELSE IF Soon(f) /\ Left("slot_waits") THEN Goes({"slot_waits"}, {}, "backoff", "timer") ELSE Failed(f, "nothing")
    /\ Unheard

-----------------------------------------------------------------------------
(* The request is out: in calling nothing was heard yet, in streaming      *)
(* something was.  In grace there is one request and one attempt, and      *)
(* whatever comes of it is the end.                                        *)

InCall  == doing = "call" /\ state \in {"calling", "streaming"}
InGrace == doing = "call" /\ state = "grace"

StreamStarted ==
    /\ \/ InCall /\ state = "calling" /\ Goes({}, {}, "streaming", "call")
       \/ InGrace /\ Goes({}, {}, "grace", "call")
    /\ Unheard

(* A reply that says nothing is asked for once more, then of another       *)
(* provider; words that came before it are a partial answer.               *)
Partly == IF told THEN "partial" ELSE "failed"

Paused == {"paused", "silent pause"}   \* with words that were shown, or without

Reply(r) ==
    CASE r = "refused"    -> IF Left("fallbacks")       THEN Switch ELSE End("refused")
      [] r \in Paused     -> IF Left("iterations")      THEN Ask({"iterations"}, {"reply"}) ELSE Grace("slot")
      [] r = "tools"      -> IF Left("iterations")      THEN Goes({"iterations"}, {"tool round", "reply"},
                                                                  "tool_exec", "tools") ELSE Grace("slot")
      [] r = "bad tools"  -> IF Left("bad_tool_rounds") THEN Ask({"bad_tool_rounds"}, {"reply"}) ELSE End("failed")
      [] r = "empty"      -> IF Left("empty_replies")   THEN Ask({"empty_replies"}, {"reply"}) ELSE
                             IF Left("fallbacks")       THEN Switch ELSE End(Partly)
      [] r = "answer"     -> IF steer                   THEN Ask({}, {"reply", "word"}) ELSE End("completed")

Measured(dear) == overspent' = (overspent \/ dear)

ModelReplied(r, n, dear) ==
    /\ Measured(dear)
    /\ UNCHANGED <<steer, words, cut>>
    /\ \/ InCall /\ Reply(r)
       \/ InGrace /\ End("exhausted")
    /\ pending' = IF state' = "tool_exec" THEN n ELSE pending
    /\ told' = Keeps(r = "paused" \/ (told /\ r \notin {"tools", "bad tools", "answer"}))
    /\ spare' = Keeps(spare /\ r # "tools")

ModelWasCut(what, dear) ==
    /\ Measured(dear)
    /\ \/ InCall /\ Goes({}, {}, "truncated", "judge") /\ cut' = what
       \/ InGrace /\ End("exhausted") /\ cut' = cut
    /\ UNCHANGED <<steer, words, pending>> /\ Same

(* Before the first sign of life nothing can have been shown.              *)
ModelFailed(f, shown) ==
    /\ \/ InCall /\ (state = "calling" => shown = "nothing") /\ Failed(f, shown)
       \/ InGrace /\ End("exhausted")
    /\ Unheard

Broken(row, shown) ==
    /\ \/ InCall /\ (state = "calling" => shown = "nothing") /\ row
       \/ InGrace /\ End("exhausted")
    /\ cut' = IF state' = "truncated" THEN "text" ELSE cut
    /\ UNCHANGED <<overspent, pending, steer, words>> /\ Same

(* A drop is mended at once, without a word, where nothing was shown or a  *)
(* tool call would be lost; a stall has cost its time already.             *)
StreamDropped(f, shown) ==
    Broken(IF shown # "text" /\ Left("stream_retries") THEN Ask({"stream_retries"}, {}) ELSE
           IF Text(shown)                              THEN KeepText("stream_retries", f) ELSE
           Failed(f, shown), shown)

StreamStalled(f, shown) ==
    Broken(IF shown = "both" /\ Left("stream_retries") THEN Ask({"stream_retries"}, {}) ELSE
           IF Text(shown)                              THEN KeepText("api_retries", f) ELSE
           Failed(f, shown), shown)

-----------------------------------------------------------------------------
(* A reply was cut: go on where it stopped, or ask again with more room.   *)
(*   text     text that says something new                                 *)
(*   tool     a tool call stops in the middle, or may                      *)
(*   both     such a tool call, behind text                                *)
(*   thought  the model only thought, as far as one can see                *)
(*   stuck    text that says the same over and over, or fills the window   *)
(*   lost     a tool call that fills the window                            *)

CutJudged ==
    /\ doing = "judge"
    /\ cut' = "none"
    /\ UNCHANGED <<overspent, pending, steer, words>>
    /\ IF cut \in {"tool", "both"} /\ Room /\ Left("boosts")     THEN Ask({"boosts"}, {"cut reply"}) ELSE
       IF cut \in {"text", "both"} /\ Left("continuations")      THEN Ask({"continuations"}, {"cut reply"}) ELSE
       IF cut = "thought" /\ ~spare /\ Left("boosts")            THEN Ask({"boosts"}, {"cut reply"}) ELSE
       End(IF cut \in {"text", "both", "stuck"} THEN "partial" ELSE Partly)
    /\ told' = Keeps(told \/ count'["continuations"] # count["continuations"])
    /\ spare' = Keeps(spare \/ cut = "thought")

-----------------------------------------------------------------------------
(* Tools come back one by one.                                             *)

ToolReturned(stop) ==
    /\ doing = "tools"
    /\ pending' = IF stop THEN 0 ELSE pending - 1
    /\ IF stop                             THEN End("failed") ELSE
       IF pending > 1                      THEN Goes({}, {}, "tool_exec", "tools") ELSE
       IF Left("iterations") /\ Budget     THEN Ask({}, {}) ELSE
       Grace("slot")
    /\ UNCHANGED <<overspent, cut, steer, words>> /\ Same

-----------------------------------------------------------------------------
(* Waiting, repairing, changing the provider.                              *)

TimerFired ==
    /\ doing = "timer"
    /\ IF state = "grace" THEN Goes({}, {}, "grace", "slot") ELSE Ask({}, {})
    /\ Unheard

RequestRepaired(changed) ==
    /\ doing = "repair"
    /\ IF changed THEN Ask({}, {}) ELSE IF Left("fallbacks") THEN Switch ELSE End("failed")
    /\ Unheard

ProviderReady ==
    doing = "switch" /\ Ask({}, {}) /\ Unheard

ProviderFailed(f) ==
    /\ doing = "switch"
    /\ IF Left("fallbacks")                 THEN Switch ELSE
       IF WillPass(f) /\ Left("recoveries")  THEN Recover ELSE
       End("failed")
    /\ Unheard

-----------------------------------------------------------------------------
(* Words of the user and the host.  When the turn is over they are heard,  *)
(* and change nothing.                                                     *)

InterruptAsked ==
    IF state = "done" THEN UNCHANGED vars
    ELSE /\ End("interrupted")
         /\ pending' = 0 /\ cut' = "none"
         /\ UNCHANGED <<overspent, steer, words>> /\ Same

Stays == UNCHANGED <<state, doing, count, outcome, told, spare>>
Over  == UNCHANGED <<state, doing, count, outcome, told, spare, overspent, pending, cut, words>>

(* When the turn is over, a steer is kept to be handed back, and nothing   *)
(* else is changed by a word.                                              *)
SteerGiven(now) ==
    IF state = "done" THEN steer' = TRUE /\ Over
    ELSE /\ words < Words
         /\ words' = words + 1
         /\ steer' = TRUE
         /\ UNCHANGED <<overspent, pending, cut>>
         /\ IF now /\ state \in {"calling", "streaming"}
            THEN Ask({}, {"word"}) /\ told' = FALSE /\ spare' = spare
            ELSE Stays

RebuildAsked ==
    IF state = "done" THEN UNCHANGED vars
    ELSE /\ words < Words
         /\ words' = words + 1
         /\ UNCHANGED <<overspent, pending, cut, steer>>
         /\ IF state \in {"calling", "streaming", "repairing"} /\ Left("rebuilds")
            THEN Ask({"rebuilds"}, {}) /\ Same
            ELSE Stays

-----------------------------------------------------------------------------
(* Everything that can happen, by its name and what is known of it.        *)

SlotFaults == {"limited", "limited_late"}

Event ==
       {<<e>> : e \in {"TurnStarted", "SlotGranted", "StreamStarted", "CutJudged", "TimerFired", "ProviderReady",
                       "InterruptAsked"}}
  \cup {<<"SlotRefused", f>> : f \in SlotFaults}
  \cup {<<"ModelReplied", "tools", n, d>> : n \in Calls, d \in Dear}
  \cup {<<"ModelReplied", r, 0, d>> : r \in Replies, d \in Dear}
  \cup {<<"ModelWasCut", w, d>> : w \in Cuts, d \in Dear}
  \cup {<<"ModelFailed", f, s>> : f \in Faults, s \in Shown}
  \cup {<<e, f, s>> : e \in {"StreamDropped", "StreamStalled"}, f \in StreamFaults, s \in Shown}
  \cup {<<"ToolReturned", s>> : s \in {"ok", "stop"}}
  \cup {<<"RequestRepaired", c>> : c \in {"changed", "unchanged"}}
  \cup {<<"ProviderFailed", f>> : f \in NotReady}
  \cup {<<w>> : w \in Spoken}

Word == {<<w>> : w \in {"InterruptAsked", "SteerGiven", "SteerGivenNow", "RebuildAsked"}}

Happens(e) ==
    CASE e[1] = "TurnStarted"     -> TurnStarted
      [] e[1] = "SlotGranted"     -> SlotGranted
      [] e[1] = "SlotRefused"     -> SlotRefused(e[2])
      [] e[1] = "StreamStarted"   -> StreamStarted
      [] e[1] = "ModelReplied"    -> ModelReplied(e[2], e[3], e[4])
      [] e[1] = "ModelWasCut"     -> ModelWasCut(e[2], e[3])
      [] e[1] = "ModelFailed"     -> ModelFailed(e[2], e[3])
      [] e[1] = "StreamDropped"   -> StreamDropped(e[2], e[3])
      [] e[1] = "StreamStalled"   -> StreamStalled(e[2], e[3])
      [] e[1] = "CutJudged"       -> CutJudged
      [] e[1] = "ToolReturned"    -> ToolReturned(e[2] = "stop")
      [] e[1] = "TimerFired"      -> TimerFired
      [] e[1] = "RequestRepaired" -> RequestRepaired(e[2] = "changed")
      [] e[1] = "ProviderReady"   -> ProviderReady
      [] e[1] = "ProviderFailed"  -> ProviderFailed(e[2])
      [] e[1] = "InterruptAsked"  -> InterruptAsked
      [] e[1] = "SteerGiven"      -> SteerGiven(FALSE)
      [] e[1] = "SteerGivenNow"   -> SteerGiven(TRUE)
      [] e[1] = "RebuildAsked"    -> RebuildAsked

Init ==
    /\ state = "ready" /\ doing = "nothing" /\ outcome = "none"
    /\ count = [c \in Counters |-> 0]
    /\ overspent = FALSE /\ pending = 0 /\ cut = "none" /\ told = FALSE /\ spare = FALSE
    /\ steer = FALSE /\ words = 0

Next == \E e \in Event : Happens(e)

(* What was begun is answered at last; nobody has to say a word.           *)
Answered == \E e \in Event \ Word : Happens(e)

Spec == Init /\ [][Next]_vars /\ WF_vars(Answered)

-----------------------------------------------------------------------------
(* The same, with every step printed as it is found: what TLC's own graph  *)
(* cannot tell is the parameters of an action.                             *)

Order == <<"requests", "iterations", "grace_calls", "sanitizations", "credential_refreshes", "output_limit_repairs",
           "history_repairs", "media_repairs", "parameter_repairs", "stream_switches", "continuations", "boosts",
           "empty_replies", "bad_tool_rounds", "compactions", "recoveries", "fallbacks", "rebuilds", "api_retries",
           "stream_retries", "slot_waits">>

Facts == <<state, doing, outcome, [i \in 1..Len(Order) |-> count[Order[i]]],
            overspent, pending, cut, told, spare, steer, words>>

Prints == Init /\ [][\E e \in Event : Happens(e) /\ PrintT(<<"edge", Facts, e, Facts'>>)]_vars

-----------------------------------------------------------------------------
(* What must hold.                                                         *)

TypeOK ==
    /\ state \in States /\ doing \in Doings /\ outcome \in Outcomes
    /\ count \in [Counters -> Nat]
    /\ {overspent, told, spare, steer} \subseteq BOOLEAN
    /\ pending \in 0..3 /\ words \in 0..Words
    /\ cut \in {"none", "text", "tool", "both", "thought", "stuck", "lost"}

(* No counter is ever above its cap.                                       *)
Bounded == \A c \in Counters : count[c] <= Cap[c]

(* The turn is over when it has an outcome, and then nothing is done.      *)
DoneIsDone == (state = "done") = (outcome # "none") /\ (state = "done" => doing = "nothing")

(* The last reply is asked for at most once, and always before a turn is   *)
(* called exhausted.                                                       *)
OneGrace == (state = "grace" => count["grace_calls"] = 1) /\ (outcome = "exhausted" => ~Left("grace_calls"))

(* Where a turn waits, what it waits for is on its way.                    *)
Awaited ==
    /\ (state \in {"calling", "streaming"} => doing \in {"slot", "call"}) /\ (state = "streaming" => doing = "call")
    /\ (state = "grace" => doing \in {"slot", "call", "timer"})
    /\ (state \in {"backoff", "recovering"} => doing = "timer")
    /\ (state = "tool_exec") = (doing = "tools") /\ (state = "tool_exec") = (pending > 0)
    /\ (state = "truncated") = (doing = "judge") /\ (state = "truncated") = (cut # "none")
    /\ (state = "repairing") = (doing = "repair")
    /\ (state = "fallback") = (doing = "switch")

(* After an interrupt nothing is started, ever.                            *)
InterruptWins == [][outcome = "interrupted" => Over]_vars

(* The end is the end.                                                     *)
DoneStays == [][state = "done" => Over]_vars

(* Nobody calls a turn completed whose budget was spent.                   *)
Honest == [][(state = "grace" /\ state' = "done") => outcome' \in {"exhausted", "interrupted"}]_vars

(* A steer waits until a request takes it along.                           *)
SteerKept == [][(steer /\ ~steer') => (doing = "slot" /\ doing' = "call")]_vars

(* A steer spends nothing; the host's word spends rebuilds alone.          *)
OwnCounters == [][words' # words => \A c \in Counters \ {"rebuilds"} : count'[c] = count[c]]_vars

(* A change of provider spends fallbacks alone.                            *)
OwnSwitch == [][(state' = "fallback" /\ state # "fallback") =>
                \A c \in Counters \ {"fallbacks"} : count'[c] <= count[c]]_vars

(* A request that was not sent is not counted.                             *)
Sent == [][(count'["requests"] # count["requests"]) = (doing = "slot" /\ doing' = "call" /\ state' # "grace")]_vars

(* Every turn ends.                                                        *)
Terminates == <>(state = "done")
=============================================================================
