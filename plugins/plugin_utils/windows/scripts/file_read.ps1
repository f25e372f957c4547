# storlab: file_read
# A part of a file that another process may still be writing. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Path, [int64]$Offset, [int]$Bytes)
$Ansible.Changed = $false

$stream = [System.IO.File]::Open($Path, [System.IO.FileMode]::Open, [System.IO.FileAccess]::Read, [System.IO.FileShare]::ReadWrite)
try {
    $null = $stream.Seek($Offset, [System.IO.SeekOrigin]::Begin)
    $buffer = New-Object -TypeName byte[] -ArgumentList $Bytes
    $count = 0
    do {
        $more = $stream.Read($buffer, $count, $Bytes - $count)
        $count += $more
    } while ($more)
    $Ansible.Result = @{ content = [System.Convert]::ToBase64String($buffer, 0, $count); size_bytes = $stream.Length }
}
finally {
    $stream.Dispose()
}
