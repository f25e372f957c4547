# storlab: zero_look
# parts: windows_only/raw_stream
# How many of the sampled blocks of a disk or a file hold nothing but zeros, as blocks do that were never written. Reads only, so it runs in check mode, too.
[CmdletBinding(SupportsShouldProcess)]
param([string]$Path, [int64[]]$Offsets, [int]$Bytes)
$Ansible.Changed = $false

$block = New-Object -TypeName byte[] -ArgumentList $Bytes
$nothing = [System.Convert]::ToBase64String($block)
$samples = 0
$zeros = 0
$stream = Open-RawStream -Path $Path
try {
    foreach ($offset in $Offsets) {
        $null = $stream.Seek($offset, [System.IO.SeekOrigin]::Begin)
        $count = 0
        # Not one read more than there is to read: a disk refuses a read of less than a sector.
        do {
            $more = $stream.Read($block, $count, $Bytes - $count)
            $count += $more
        } while ($more -and $count -lt $Bytes)
        if ($count -lt $Bytes) { break }
        $samples += 1
        if ([System.Convert]::ToBase64String($block) -ceq $nothing) { $zeros += 1 }
    }
}
finally {
    $stream.Dispose()
}
$Ansible.Result = @{ samples = $samples; zeros = $zeros }
