# Every cmdlet refuses with an error after which a script may go on.
$global:StandIn.Answers['*'] = { param($Bound, $Name) Deny-Call -Message "$Name is denied." }
