# Runs cases in this PowerShell, and prints one line of JSON for each. It does with a script what ansible.windows.win_powershell does: a runspace
# of its own, the variable Ansible, errors that stop, parameters from JSON, secrets as credentials, WhatIf where a script supports it. It is
# stricter in two ways: Set-StrictMode -Version Latest holds, so that a property that is not there is an error; and a result holds nothing but
# text, numbers, true, false, null, lists and mappings (an enumeration would reach the controller as a mapping of its type and value).
# Cases: a file with one JSON object a line: {name, script or file, parameters, secret: [user, password] or null, check, world, change, folder, stand_ins}.
param([string]$Cases, [string]$Cmdlets, [string]$StandIns, [string]$Place)
$ErrorActionPreference = 'Stop'

function Get-JsonText {
    param([string]$Text)
    # ASCII alone, whatever the code page of the console is.
    $escaped = [regex]::Replace($Text, '[^\x20\x21\x23-\x5B\x5D-\x7E]', { param($found) '\u{0:x4}' -f [int][char]$found.Value })
    '"' + $escaped + '"'
}

# A value as JSON. Loose: what cmdlets are given may be more than a result may hold.
function Get-Json {
    param($Value, [switch]$Loose)
    if ($null -eq $Value) { return 'null' }
    if ($Value -is [bool]) { if ($Value) { return 'true' } else { return 'false' } }
    if ($Value -is [string] -or $Value -is [char]) { return (Get-JsonText ([string]$Value)) }
    foreach ($type in [int], [long], [uint16], [uint32], [uint64], [int16], [byte]) {
        if ($Value.GetType() -eq $type) { return $Value.ToString([System.Globalization.CultureInfo]::InvariantCulture) }
    }
    if ($Loose) {
        if ($Value -is [System.Management.Automation.SwitchParameter]) { return (Get-Json ([bool]$Value)) }
        if ($Value -is [pscredential]) { return (Get-JsonText "credential $($Value.UserName) $($Value.GetNetworkCredential().Password)") }
        if ($Value -is [enum] -or $Value -is [timespan]) { return (Get-JsonText ([string]$Value)) }
    }
    if ($Value -is [System.Collections.IDictionary]) {
        $pairs = @(foreach ($key in @($Value.Keys)) { (Get-JsonText ([string]$key)) + ':' + (Get-Json -Value $Value[$key] -Loose:$Loose) })
        return '{' + ($pairs -join ',') + '}'
    }
    if ($Value -is [System.Collections.IList]) {
        $items = @(foreach ($item in $Value) { Get-Json -Value $item -Loose:$Loose })
        return '[' + ($items -join ',') + ']'
    }
    Get-JsonText "<$($Value.PSObject.TypeNames[0])>"
}

# The declaration of a stand-in: one param(...) of all parameter sets.
function Get-Declaration {
    param([string]$Name, $Cmdlet)
    $classes = @{
        String = 'string'; UInt16 = 'uint16'; UInt32 = 'uint32'; UInt64 = 'uint64'; Int32 = 'int'; Int64 = 'long'; Boolean = 'bool'; SwitchParameter = 'switch'
        Char = 'char'; PSCredential = 'pscredential'; TimeSpan = 'timespan'
    }
    # Classes of the iSCSI target that take text of a form.
    $forms = @{ InitiatorId = '^(DNSName|IPAddress|IPv6Address|IQN|MACAddress):.+'; Iqn = '^(iqn|eui|naa)\.' }
    $confirm = '$false'
    $declared = foreach ($entry in $Cmdlet.parameters.PSObject.Properties) {
        if ($entry.Name -eq 'Confirm') { $confirm = '$true' }
        if ('Confirm', 'WhatIf' -contains $entry.Name) { continue }
        $about = $entry.Value
        $type = $about.type.Replace('[]', '')
        $attributes = foreach ($set in $about.sets.PSObject.Properties) {
            $terms = @()
            if ($set.Name -ne '(All)') { $terms += "ParameterSetName = '$($set.Name)'" }
            if ($set.Value) { $terms += 'Mandatory = $true' }
            "[Parameter($($terms -join ', '))]"
        }
        $extra = ''
        $class = $classes[$type]
        if ($forms[$type]) {
            $class = 'string'
            $extra += "[ValidatePattern('$($forms[$type])')]"
        }
        if (-not $class -and $about.accepted) { $class = 'string' }
        if ($about.accepted) { $extra += "[ValidateSet('$($about.accepted -join "', '")')]" }
        if ($about.aliases) { $extra += "[Alias('$($about.aliases -join "', '")')]" }
        if (-not $class) { $class = 'object' }
        if ($about.type.EndsWith('[]')) { $class += '[]' }
        "$($attributes -join '')$extra[$class]`$$($entry.Name)"
    }
    $default = ''
    if ($Cmdlet.default) { $default = "DefaultParameterSetName = '$($Cmdlet.default)', " }
    "function $Name {`n    [CmdletBinding($($default)SupportsShouldProcess = $confirm)]`n    param($($declared -join ', '))`n    Invoke-StandIn '$Name' `$PSBoundParameters`n}`n"
}

function Get-Reason {
    param($ErrorRecord)
    $exception = $ErrorRecord.Exception
    if ($exception -is [System.Management.Automation.MethodInvocationException] -and $exception.InnerException) { $exception = $exception.InnerException }
    if ($exception -is [System.Management.Automation.RuntimeException] -and $exception.ErrorRecord) { $exception = $exception.ErrorRecord.Exception }
    $exception.Message
}

function Invoke-Case {
    param($Case, [string]$Module)
    $calls = New-Object -TypeName System.Collections.ArrayList
    $ansible = New-Object -TypeName PSObject -Property @{ CheckMode = [bool]$Case.check; Verbosity = 0; Result = @{}; Diff = @{}; Changed = $true; Failed = $false; Tmpdir = $Place }
    $parameters = @{}
    foreach ($entry in $Case.parameters.PSObject.Properties) { $parameters[$entry.Name] = $entry.Value }
    if ($Case.secret) {
        $secret = New-Object -TypeName System.Security.SecureString
        foreach ($character in ([string]$Case.secret[1]).ToCharArray()) { $secret.AppendChar($character) }
        $parameters['Chap'] = New-Object -TypeName System.Management.Automation.PSCredential -ArgumentList ([string]$Case.secret[0]), $secret
    }
    $failed = $false
    $reason = $null
    $output = @()
    $runspace = [System.Management.Automation.Runspaces.RunspaceFactory]::CreateRunspace()
    $runspace.Open()
    try {
        if ($Case.stand_ins) {
            $world = @{ Calls = $calls; Folder = $Case.folder; World = $Case.world; Change = $Case.change }
            $shell = [powershell]::Create()
            $shell.Runspace = $runspace
            $null = $shell.AddCommand('Import-Module').AddParameter('Name', $Module).AddParameter('DisableNameChecking', $true).AddParameter('ErrorAction', 'Stop')
            $null = $shell.AddStatement().AddCommand('Set-World').AddParameters($world)
            $null = $shell.Invoke()
            if ($shell.Streams.Error.Count) { throw "The world cannot be made: $($shell.Streams.Error[0])" }
        }
        $runspace.SessionStateProxy.SetVariable('Ansible', $ansible)
        $runspace.SessionStateProxy.SetVariable('ErrorActionPreference', [System.Management.Automation.ActionPreference]::Stop)
        $shell = [powershell]::Create()
        $shell.Runspace = $runspace
        $null = $shell.AddScript('Set-StrictMode -Version Latest')
        $null = $shell.Invoke()
        $shell = [powershell]::Create()
        $shell.Runspace = $runspace
        if ($Case.file) {
            $null = $shell.AddCommand([string]$Case.file)
        }
        else {
            if ($Case.script.Contains('SupportsShouldProcess')) {
                $parameters['Confirm'] = $false
                $parameters['WhatIf'] = [bool]$Case.check
            }
            $null = $shell.AddScript([string]$Case.script).AddParameters($parameters)
        }
        try { $output = @($shell.Invoke()) }
        catch {
            $failed = $true
            $reason = Get-Reason $_
        }
        $registry = $null
        if ($Case.stand_ins) { $registry = $runspace.SessionStateProxy.GetVariable('StandIn').Registry }
    }
    finally {
        $runspace.Dispose()
    }
    $pairs = @(
        '"name":' + (Get-JsonText ([string]$Case.name))
        '"failed":' + (Get-Json $failed)
        '"error":' + (Get-Json $reason)
        '"changed":' + (Get-Json $ansible.Changed)
        '"result":' + (Get-Json -Value $ansible.Result)
        '"output":' + (Get-Json -Value $output -Loose)
        '"calls":' + (Get-Json -Value $calls -Loose)
        '"registry":' + (Get-Json -Value $registry)
    )
    '{' + ($pairs -join ',') + '}'
}

# The task that a script makes runs a program of the host's own folder.
if (-not $env:SystemRoot) { $env:SystemRoot = '/SystemRoot' }
$facts = ConvertFrom-Json -InputObject ([System.IO.File]::ReadAllText($Cmdlets))
$declared = foreach ($entry in $facts.cmdlets.PSObject.Properties) { Get-Declaration -Name $entry.Name -Cmdlet $entry.Value }
$module = [System.IO.Path]::Combine($Place, 'stand_ins_of_cases.psm1')
[System.IO.File]::WriteAllText($module, [System.IO.File]::ReadAllText($StandIns) + ($declared -join '') + "Export-ModuleMember -Function *`n")
foreach ($line in [System.IO.File]::ReadAllLines($Cases)) {
    $case = ConvertFrom-Json -InputObject $line
    try { $answer = Invoke-Case -Case $case -Module $module }
    catch { $answer = '{"name":' + (Get-JsonText ([string]$case.name)) + ',"bench_error":' + (Get-JsonText "$_ $($_.ScriptStackTrace)") + '}' }
    [Console]::Out.WriteLine($answer)
    [Console]::Out.Flush()
}
