# storlab: aim_list
# parts: program
# The devices of Arsenal Image Mounter, as its own program lists them. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Program)
$Ansible.Changed = $false
$found = Get-Command -Name $Program -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
$answer = @{ exit_code = $null; output = ''; errors = '' }
if ($found) { $answer = Invoke-Program -Path $found.Path -Arguments '-l' -LimitMs 60000 }
$Ansible.Result = @{
    found = [bool]$found
    exit_code = $answer.exit_code
    output = $answer.output
    errors = $answer.errors
}
